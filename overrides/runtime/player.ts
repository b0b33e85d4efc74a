/** The player of a timeline: moves its slider, one frame at a time, while the reader can see it. */

import { announce } from "./announce";

const SLIDER = "input[data-frame]";
const PLAYER = ".kv-player";
/** Between two frames where the reader asked for less motion. */
const CALM_MS = 1000;

export function lessMotion(): boolean {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/**
 * Plays a widget's timeline.
 *
 * A frame sets the slider and tells the widget by an `input` event, as the reader's hand does; the
 * next one waits for the picture of the last, so that only one update is ever under way.
 */
export class Player {
  readonly #widget: HTMLElement;
  readonly #seen: IntersectionObserver;
  #playing = false;
  #waiting = false;
  #timer = 0;
  #due = 0;
  #sentence = "";

  /** The player of a widget, if it has a timeline; it ends with the signal. */
  static of(widget: HTMLElement, signal: AbortSignal): Player | undefined {
    return widget.querySelector(SLIDER) ? new Player(widget, signal) : undefined;
  }

  private constructor(widget: HTMLElement, signal: AbortSignal) {
    this.#widget = widget;
    this.#seen = new IntersectionObserver((entries) => {
      if (entries.at(-1)?.isIntersecting === false) this.pause();
    });
    widget.addEventListener("click", (event) => this.#clicked(event), { signal });
    widget.addEventListener("keydown", (event) => this.#pressed(event), { signal });
    widget.addEventListener("input", (event) => this.#taken(event), { signal });
    const hidden = (): void => void (document.hidden && this.pause());
    document.addEventListener("visibilitychange", hidden, { signal });
    signal.addEventListener("abort", () => this.pause());
    this.#draw();
  }

  play(): void {
    const slider = this.#slider;
    if (this.#playing || !slider || document.hidden) return;
    this.#playing = true;
    this.#widget.toggleAttribute("playing", true);
    this.#seen.observe(this.#widget);
    this.#draw();
    if (slider.value === slider.max) this.#move(Number(slider.min));
    else this.#schedule(0);
  }

  pause(): void {
    if (!this.#playing) return;
    this.#playing = this.#waiting = false;
    clearTimeout(this.#timer);
    this.#widget.toggleAttribute("playing", false);
    this.#seen.disconnect();
    this.#draw();
    announce(this.#sentence);
  }

  /** Told when the newest picture stands: the next frame may come. */
  shown(): void {
    if (!this.#playing || !this.#waiting) return;
    this.#waiting = false;
    const slider = this.#slider;
    if (!slider || slider.value === slider.max) this.pause();
    else this.#schedule(this.#due - performance.now());
  }

  /** Say a sentence now, or when it pauses: not with every frame. */
  say(sentence: string): void {
    this.#sentence = sentence;
    if (!this.#playing) announce(sentence);
  }

  get #slider(): HTMLInputElement | null {
    return this.#widget.querySelector<HTMLInputElement>(SLIDER);
  }

  get #speed(): number {
    return Number(this.#widget.querySelector<HTMLSelectElement>("[data-act=speed]")?.value ?? 1);
  }

  #schedule(wait: number): void {
    this.#timer = window.setTimeout(() => this.#frame(), Math.max(0, wait));
  }

  #frame(): void {
    const slider = this.#slider;
    if (!slider) return;
    const frame = lessMotion() ? slider.dataset.calmFrame : slider.dataset.frame;
    this.#move(Number(slider.value) + Number(frame));
  }

  /** Set the slider and tell the widget. */
  #move(moment: number): void {
    const slider = this.#slider;
    if (!slider) return;
    const interval = lessMotion() ? CALM_MS : Number(slider.dataset.interval);
    this.#due = performance.now() + interval / this.#speed;
    this.#waiting = true;
    slider.value = String(moment); // the slider keeps it within its limits
    slider.dispatchEvent(new CustomEvent("input", { bubbles: true, detail: this }));
  }

  #step(direction: number): void {
    const slider = this.#slider;
    if (!slider) return;
    this.pause();
    this.#move(Number(slider.value) + direction);
  }

  #toggle(): void {
    if (this.#playing) this.pause();
    else this.play();
  }

  #clicked(event: Event): void {
    const button = event.target instanceof Element ? event.target.closest("[data-act]") : null;
    switch (button?.getAttribute("data-act")) {
      case "play":
        return this.#toggle();
      case "back":
        return this.#step(-1);
      case "forward":
        return this.#step(1);
    }
  }

  #pressed(event: KeyboardEvent): void {
    const target = event.target;
    if (!(target instanceof HTMLElement) || !target.closest(PLAYER)) return;
    if (event.altKey || event.ctrlKey || event.metaKey || target.matches("select")) return;
    const act = this.#actOf(event.key, target);
    if (!act) return;
    event.preventDefault();
    act();
  }

  /** What a key does: space on the slider, arrows on the buttons; the rest is the browser's. */
  #actOf(key: string, target: HTMLElement): (() => void) | undefined {
    if (key === " " && target.matches("input")) return () => this.#toggle();
    if (!target.matches("button")) return undefined;
    if (key === "ArrowRight" || key === "ArrowUp") return () => this.#step(1);
    if (key === "ArrowLeft" || key === "ArrowDown") return () => this.#step(-1);
    return undefined;
  }

  /** The reader took the slider in hand. */
  #taken(event: Event): void {
    const ours = event instanceof CustomEvent && event.detail === this;
    if (!ours && event.target === this.#slider) this.pause();
  }

  #draw(): void {
    const button = this.#widget.querySelector("[data-act=play]");
    const [sign, word] = button?.children ?? [];
    if (!sign || !word) return;
    sign.textContent = this.#playing ? "❚❚" : "▶";
    word.textContent = this.#playing ? "Pause" : "Play";
  }
}
