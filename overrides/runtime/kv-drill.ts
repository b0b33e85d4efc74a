/** `<kv-drill>`: a question whose answer Python checks; hints and solution work without it. */

import { announce } from "./announce";
import { answerOf, keepAnswer, move, restoreAnswer, showSlider, textField } from "./drill-form";
import { waitsForTap } from "./intent";
import { Interrupted, type Runtime } from "./runtime";
import { LinkProblem, textIn } from "./share/link";
import { pythonUp } from "./share/shareable";
import { type StatusWords, showStatus } from "./status";

const MODULE = "kvdocs.drills.browser";
const LONGEST_CHECK_MS = 10_000;
const SILENT_MS = 300;

/** What `kvdocs.drills.browser.check` answers. */
interface Verdict {
  readonly verdict: "right" | "wrong" | "unreadable";
  readonly message: string;
  readonly html: string;
  readonly done: boolean;
  readonly ruled_out: { readonly value: string; readonly html: string } | null;
}

/** What `kvdocs.drills.browser.show` answers. */
interface Posed {
  readonly html: string;
  readonly seed: number;
  readonly announce: string;
}

/** What the reader asked for and Python has not answered yet. */
type Wish = { readonly check: unknown } | { readonly seed: string };

const WORDS: StatusWords = {
  idle: "Checked by Python, here in your browser",
  stays: "The solution below needs none.",
  offersStart: false,
};

class TookTooLong extends Error {
  override readonly name = "TookTooLong";
}

/** Define the element; until then question, hints and solution read as they are. */
export function defineDrill(runtime: Runtime): void {
  class KvDrill extends HTMLElement {
    #wish: Wish | undefined;
    #asking = false;
    #done = false;
    #disconnected: AbortController | undefined;

    connectedCallback(): void {
      this.#disconnected = new AbortController();
      const { signal } = this.#disconnected;
      this.addEventListener("submit", (event) => this.#submitted(event), { signal });
      this.addEventListener("input", (event) => this.#changed(event), { signal });
      this.addEventListener("click", (event) => this.#clicked(event), { signal });
      this.addEventListener("keydown", (event) => this.#pressed(event), { signal });
      this.addEventListener("focusin", () => this.#prepare(), { signal });
      this.#watched?.addEventListener("input", () => this.#forgetResult(), { signal });
      runtime.addEventListener("state", () => this.#follow(), { signal });
      runtime.addEventListener("progress", () => this.#showStatus(), { signal });
      this.#restore();
      this.#follow();
    }

    disconnectedCallback(): void {
      this.#disconnected?.abort();
      this.#wish = undefined;
    }

    get #name(): string {
      return this.getAttribute("name") ?? "";
    }

    get #seed(): string {
      return this.getAttribute("seed") ?? "0";
    }

    get #form(): HTMLFormElement | null {
      return this.querySelector("form");
    }

    get #watched(): HTMLElement | null {
      const id = this.querySelector<HTMLElement>("[data-watch]")?.dataset.watch;
      return id ? document.getElementById(id) : null;
    }

    #follow(): void {
      this.setAttribute("state", runtime.state === "idle" ? "static" : runtime.state);
      this.#showStatus();
      if (runtime.state === "live") void this.#askWished();
      else if (this.#wish) this.#tellWaiting();
    }

    #showStatus(): void {
      const place = this.querySelector<HTMLElement>(".kv-status");
      if (place) showStatus(place, runtime, WORDS);
    }

    /** Who puts the hand on a drill will want an answer soon. */
    #prepare(): void {
      if (runtime.state === "idle" && !waitsForTap()) void runtime.start();
    }

    #submitted(event: Event): void {
      event.preventDefault();
      const form = this.#form;
      if (form) this.#want({ check: answerOf(form) });
    }

    #changed(event: Event): void {
      if (event.target instanceof HTMLInputElement) showSlider(event.target);
      this.#forgetResult();
      this.#keep();
    }

    #clicked(event: Event): void {
      const button = event.target instanceof Element ? event.target.closest("button") : null;
      if (!button) return;
      if (button.dataset.next !== undefined) this.#want({ seed: button.dataset.next });
      if (button.dataset.move === undefined) return;
      const told = move(button);
      if (!told) return;
      announce(told);
      this.#forgetResult();
      this.#keep();
    }

    #pressed(event: KeyboardEvent): void {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      if (event.target instanceof HTMLTextAreaElement) this.#form?.requestSubmit();
    }

    #keep(): void {
      const form = this.#form;
      if (form) keepAnswer(this.#name, form);
    }

    #restore(): void {
      const form = this.#form;
      if (form) restoreAnswer(this.#name, form);
    }

    #want(wish: Wish): void {
      this.#wish = wish;
      if (runtime.state === "idle" || runtime.state === "failed") void runtime.start();
      if (runtime.state === "live") void this.#askWished();
      else this.#tellWaiting();
    }

    /** What a link carries: the numbers' seed, and no answer. */
    sharedState(): unknown {
      return { seed: this.#seed };
    }

    /** Pose the drill with a link's numbers. */
    async openState(shared: unknown): Promise<void> {
      const seed = textIn(shared, "seed");
      if (!/^\d{1,9}$/.test(seed)) throw new LinkProblem("This link is damaged; the drill stands as it was built.");
      if (seed === this.#seed) return;
      if (!(await pythonUp(runtime))) {
        throw new LinkProblem("Python did not start, so the drill stands as it was built and not with the link's numbers.");
      }
      await this.#show(seed);
    }

    #tellWaiting(): void {
      const checking = this.#wish && "check" in this.#wish;
      if (runtime.state === "failed") {
        this.#tell(`Python did not start, so ${checking ? "this is not checked" : "there is no other question"}.`);
      } else {
        this.#tell(
          checking
            ? "Python is starting; your answer is checked as soon as it is up."
            : "Python is starting; the new question comes as soon as it is up.",
        );
      }
    }

    async #askWished(): Promise<void> {
      if (this.#asking) return;
      this.#asking = true;
      try {
        while (this.#wish && runtime.state === "live" && this.isConnected) {
          const wish = this.#wish;
          this.#wish = undefined;
          await this.#ask(wish);
        }
      } finally {
        this.#asking = false;
      }
    }

    async #ask(wish: Wish): Promise<void> {
      const slow = setTimeout(() => this.#tell("Checking …"), SILENT_MS);
      try {
        if ("check" in wish) await this.#check(wish.check);
        else await this.#show(wish.seed);
      } catch (error) {
        if (error instanceof Interrupted) this.#wish ??= wish;
        else this.#tellProblem(error);
      } finally {
        clearTimeout(slow);
      }
    }

    async #check(answer: unknown): Promise<void> {
      const seed = this.#seed;
      const asked = runtime.call<Verdict>(MODULE, "check", this.#name, seed, JSON.stringify(answer));
      const verdict = await within(asked, runtime);
      if (this.isConnected && seed === this.#seed) this.#showVerdict(verdict);
    }

    #showVerdict(verdict: Verdict): void {
      const place = this.#result;
      if (place) {
        place.innerHTML = verdict.html; // made by kvdocs.html, which escapes everything
        place.dataset.verdict = verdict.verdict;
      }
      this.#markField(verdict.verdict === "unreadable");
      if (verdict.ruled_out) this.#ruleOut(verdict.ruled_out.value, verdict.ruled_out.html);
      if (verdict.done) this.#finish(verdict.verdict);
    }

    #ruleOut(value: string, html: string): void {
      for (const option of this.querySelectorAll<HTMLElement>("[data-option]")) {
        if (option.dataset.option !== value) continue;
        option.classList.add("kv-struck");
        const why = option.querySelector<HTMLElement>(".kv-option-why");
        if (why) why.innerHTML = html; // made by kvdocs.html, which escapes everything
        if (why) why.hidden = false;
        const radio = option.querySelector("input");
        if (radio) radio.checked = false;
      }
    }

    #finish(verdict: Verdict["verdict"]): void {
      this.#done = true;
      const solution = this.querySelector<HTMLDetailsElement>(".kv-solution");
      if (solution) solution.open = true;
      const detail = { drill: this.#name, seed: Number(this.#seed), verdict };
      this.dispatchEvent(new CustomEvent("kv-drill-done", { bubbles: true, detail }));
    }

    async #show(seed: string): Promise<void> {
      const posed = await within(runtime.call<Posed>(MODULE, "show", this.#name, seed), runtime);
      if (!this.isConnected) return;
      this.innerHTML = posed.html; // made by kvdocs.html, which escapes everything
      this.setAttribute("seed", String(posed.seed));
      this.#done = false;
      this.#restore();
      this.#showStatus();
      this.querySelector<HTMLElement>("legend")?.focus();
      announce(posed.announce.replaceAll("`", ""));
    }

    get #result(): HTMLElement | null {
      return this.querySelector<HTMLElement>(".kv-result");
    }

    /** A result belongs to the answer it judged; a truth once shown stays. */
    #forgetResult(): void {
      const place = this.#result;
      if (!place || this.#done) return;
      place.replaceChildren();
      delete place.dataset.verdict;
      this.#markField(false);
    }

    #tell(sentence: string): void {
      const place = this.#result;
      if (!place) return;
      const line = document.createElement("p");
      line.className = "kv-verdict";
      line.textContent = sentence;
      place.replaceChildren(line);
      delete place.dataset.verdict;
    }

    #tellProblem(error: unknown): void {
      if (error instanceof TookTooLong) {
        const seconds = LONGEST_CHECK_MS / 1000;
        this.#tell(
          `Stopped after ${seconds} seconds: look for a loop that never ends. Your text is kept.`,
        );
        return;
      }
      console.error("kv: this answer could not be checked.", error);
      this.#tell("This could not be checked. Your answer is kept; the console has the details.");
    }

    #markField(wrong: boolean): void {
      const field = this.#form && textField(this.#form);
      const place = this.#result;
      if (!field || !place) return;
      place.id ||= `${this.id}-result`;
      if (wrong) field.setAttribute("aria-invalid", "true");
      else field.removeAttribute("aria-invalid");
      if (wrong) field.setAttribute("aria-describedby", place.id);
      else field.removeAttribute("aria-describedby");
    }
  }

  if (!customElements.get("kv-drill")) customElements.define("kv-drill", KvDrill);
}

/** Wait for an answer; a worker that does not give it in time is ended, and a new one started. */
async function within<T>(answer: Promise<T>, runtime: Runtime): Promise<T> {
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    void runtime.restart();
  }, LONGEST_CHECK_MS);
  try {
    return await answer;
  } catch (error) {
    throw late ? new TookTooLong() : error;
  } finally {
    clearTimeout(timer);
  }
}
