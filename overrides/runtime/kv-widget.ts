/** `<kv-widget>`: a picture made at build time, whose controls come alive with Python. */

import { announce } from "./announce";
import { prepareCharts, redraw } from "./chart-places";
import { FileTooLarge, asParams, setValues, showErrors, startAnew, valuesOf } from "./form";
import type { Intent } from "./intent";
import type { Answer, Params } from "./messages";
import { morphContent } from "./morph";
import { Player } from "./player";
import { Interrupted, type Runtime } from "./runtime";
import { LinkProblem, isStateLink, textsIn } from "./share/link";
import { pythonUp } from "./share/shareable";
import { PICTURE, STALE_PICTURE, showStatus } from "./status";
import { isRecord } from "./values";

/** A visit gets a state of its own only where Python is there before the reader has begun to read. */
const SOON_MS = 3000;

type Values = ReadonlyMap<string, string | File>;

/** Define the element; it stays static until this is called. */
export function defineWidget(runtime: Runtime, intent: Intent): void {
  class KvWidget extends HTMLElement {
    /** True when the form holds what is not yet asked for: it changed while an answer was awaited. */
    #wanted = false;
    #asking = false;
    /** The values last asked for: `change` repeats what `input` has told. */
    #asked: Values | undefined;
    /** True until the first time that Python is there: then a visit may get a state of its own. */
    #untouched = true;
    #connectedAt = 0;
    /** What a running simulation handed over with its last answer. */
    #state: unknown;
    #player: Player | undefined;
    #disconnected: AbortController | undefined;

    connectedCallback(): void {
      this.#disconnected = new AbortController();
      this.#connectedAt = performance.now();
      const { signal } = this.#disconnected;
      const form = this.#form;
      if (form) {
        form.reset(); // a browser that kept old values would show them beside a picture of others
        for (const fields of form.querySelectorAll("fieldset")) fields.disabled = false;
      }
      this.#state = startingState(this);
      this.#player = Player.of(this, signal);
      this.addEventListener("input", () => this.#changed(), { signal });
      this.addEventListener("change", () => this.#changed(), { signal });
      this.addEventListener("submit", (event) => this.#submitted(event), { signal });
      this.addEventListener("reset", (event) => this.#reset(event), { signal });
      runtime.addEventListener("state", () => this.#follow(), { signal });
      runtime.addEventListener("progress", () => this.#showStatus(), { signal });
      if (document.querySelector("kv-widget") !== this) this.#status?.setAttribute("aria-live", "off");
      intent.watch(this);
      this.#follow();
    }

    disconnectedCallback(): void {
      intent.unwatch(this);
      this.#disconnected?.abort();
      this.#wanted = false;
    }

    get #form(): HTMLFormElement | null {
      return this.querySelector("form");
    }

    get #status(): HTMLElement | null {
      return this.querySelector<HTMLElement>(".kv-status");
    }

    #follow(): void {
      this.setAttribute("state", runtime.state === "idle" ? "static" : runtime.state);
      this.#showStatus();
      if (runtime.state === "live") {
        this.#startAnew();
        void this.#askWanted();
      }
      if (runtime.state === "failed") this.#player?.pause();
    }

    /** Start at a state of this visit's own, unless the reader or a link came first. */
    #startAnew(): void {
      const isFirst = this.#untouched && !this.#wanted && !isStateLink(location.hash);
      const isSoon = performance.now() - this.#connectedAt <= SOON_MS;
      this.#untouched = false;
      if (isFirst && this.#form && startAnew(this.#form, isSoon)) this.#wanted = true;
    }

    #showStatus(): void {
      if (this.#status) showStatus(this.#status, runtime, this.dataset.stale === undefined ? PICTURE : STALE_PICTURE);
    }

    /** Say that the picture is not of what the form holds, or that it is. */
    #setStale(stale: boolean): void {
      this.toggleAttribute("data-stale", stale);
      for (const button of this.querySelectorAll<HTMLButtonElement>("kv-print button")) button.disabled = stale;
      this.#showStatus();
    }

    #changed(): void {
      if (!this.#form) return;
      if (!this.#wanted && this.#asked && sameValues(valuesOf(this.#form), this.#asked)) return;
      this.#wanted = true;
      if (runtime.state === "idle") void runtime.start();
      void this.#askWanted();
    }

    #submitted(event: Event): void {
      event.preventDefault();
      this.#changed();
    }

    /** What a link carries: the controls' values and, where there is one, the simulation's state. */
    async sharedState(): Promise<unknown> {
      const params = this.#form ? await asParams(valuesOf(this.#form)) : {};
      return this.#state === undefined ? { params } : { params, state: this.#state };
    }

    /** Show a link's state. Python is asked, not the form: limits of controls may depend on it. */
    async openState(shared: unknown): Promise<void> {
      const params = textsIn(shared, "params");
      if (!(await pythonUp(runtime))) {
        throw new LinkProblem("Python did not start, so the picture stands as it was built and not as in the link.");
      }
      if (!this.#form || !this.isConnected) return;
      prepareCharts(this);
      const state = isRecord(shared) ? shared.state : undefined;
      const answer = await runtime.update(this.getAttribute("name") ?? "", params, state);
      if (answer.html === null) throw new LinkProblem(refusal(answer.errors));
      this.#player?.pause();
      this.#wanted = false;
      this.#show(answer, valuesOf(this.#form));
      this.#asked = valuesOf(this.#form);
    }

    #reset(event: Event): void {
      if (!this.#form) return;
      event.preventDefault(); // a morph moves the form's own defaults; ours stay
      this.#player?.pause();
      this.#state = startingState(this);
      setValues(this.#form, JSON.parse(this.dataset.params ?? "{}") as Params);
      this.#changed();
    }

    /** Ask for the newest values until none wait; one question at a time, so answers keep order. */
    async #askWanted(): Promise<void> {
      if (this.#asking) return;
      this.#asking = true;
      try {
        while (this.#wanted && runtime.state === "live" && this.isConnected && this.#form) {
          this.#wanted = false;
          // Read only now: the last answer may have set controls that the reader has not touched.
          this.#asked = valuesOf(this.#form);
          await this.#ask(this.#asked);
        }
      } finally {
        this.#asking = false;
      }
      if (!this.#wanted) this.#player?.shown();
    }

    async #ask(values: Values): Promise<void> {
      prepareCharts(this);
      try {
        const name = this.getAttribute("name") ?? "";
        const answer = await runtime.update(name, await asParams(values), this.#state);
        if (this.isConnected) this.#show(answer, values);
      } catch (error) {
        if (error instanceof Interrupted) this.#wanted = true;
        else {
          this.#setStale(true);
          this.#showErrors(messagesOf(error));
        }
      }
    }

    #show(answer: Answer, values: Values): void {
      if (answer.html !== null) {
        this.#state = answer.state;
        morphContent(this, answer.html, values);
        void redraw(this);
        if (this.#player) this.#player.say(answer.announce);
        else announce(answer.announce);
      }
      this.#setStale(answer.html === null);
      this.#showErrors(answer.errors);
      if (performance.getEntriesByName("kv:first-update").length === 0) {
        performance.mark("kv:first-update");
      }
    }

    #showErrors(errors: Readonly<Record<string, string>>): void {
      if (this.#form) showErrors(this.#form, errors);
      const messages = Object.values(errors);
      if (messages.length > 0) this.#player?.pause();
      announce(messages.join(" "));
    }
  }

  customElements.define("kv-widget", KvWidget);
}

function startingState(widget: HTMLElement): unknown {
  return widget.dataset.state === undefined ? undefined : JSON.parse(widget.dataset.state);
}

function sameValues(some: Values, others: Values): boolean {
  return some.size === others.size && [...some].every(([name, value]) => others.get(name) === value);
}

function refusal(errors: Readonly<Record<string, string>>): string {
  const reason = Object.values(errors)[0] ?? "";
  return `This link does not fit this picture, which stands as it was built: ${reason}`;
}

function messagesOf(error: unknown): Record<string, string> {
  if (error instanceof FileTooLarge) return { [error.control]: error.message };
  console.error("kv: this change could not be drawn.", error);
  return { "*": "This change could not be drawn; the last picture stays. The console has the details." };
}
