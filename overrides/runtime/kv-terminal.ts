/**
 * `<kv-terminal>`: a recorded run made at build time, whose prompt comes alive with Python.
 *
 * The machine behind it is one JSON text that each line is handed with and that comes back changed.
 * It is kept here, so Python may be ended and started again at any time: the line that was not
 * answered is sent again.
 */

import { announce } from "./announce";
import { setValues } from "./form";
import { waitsForTap } from "./intent";
import type { Params } from "./messages";
import { Interrupted, type Runtime } from "./runtime";
import { type StatusWords, showStatus } from "./status";
import { type Completion, LineHistory, completed, pastedLines } from "./terminal-line";

const MODULE = "kvdocs.terminal.browser";
const MOST_ENTRIES = 500;
const SLOW_MS = 1_500;

/** What `kvdocs.terminal.browser.run` answers. */
interface Answer {
  readonly machine: string;
  readonly html: string;
  readonly prompt: string;
  readonly clears: boolean;
  readonly history: readonly string[];
  readonly facts: Readonly<Record<string, unknown>>;
  readonly widgets: Readonly<Record<string, Params>>;
}

/** A line on its way, with the entry that shows it. */
interface Job {
  readonly act: "run" | "stop";
  readonly line: string;
  readonly entry: HTMLElement;
}

/** What of a terminal outlives a page change. */
interface Kept {
  readonly log: string;
  readonly line: string;
}

const WORDS: StatusWords = {
  idle: "Recorded run; type to go on",
  stays: "The recorded run stays, and what you typed is kept.",
  offersStart: true,
};

/** The machine of each page of this visit, and its terminals. */
const machines = new Map<string, string>();
const kept = new Map<string, Kept>();

/** Define the element; until then the recorded run reads as it is. */
export function defineTerminal(runtime: Runtime): void {
  class KvTerminal extends HTMLElement {
    readonly #history = new LineHistory();
    readonly #jobs: Job[] = [];
    #page = "";
    #running = false;
    /** Esc was pressed: the next Tab leaves. */
    #leaves = false;
    #known: { readonly line: string; readonly found: Completion } | undefined;
    #shownParams = "";
    #disconnected: AbortController | undefined;

    connectedCallback(): void {
      this.#page = location.pathname;
      this.#disconnected = new AbortController();
      const { signal } = this.#disconnected;
      this.addEventListener("submit", (event) => this.#submitted(event), { signal });
      this.addEventListener("keydown", (event) => this.#pressed(event), { signal });
      this.addEventListener("paste", (event) => this.#pasted(event), { signal });
      this.addEventListener("input", () => this.#typed(), { signal });
      this.addEventListener("focusin", () => this.#prepare(), { signal });
      this.addEventListener("click", (event) => this.#clicked(event), { signal });
      runtime.addEventListener("state", () => this.#follow(), { signal });
      runtime.addEventListener("progress", () => this.#showStatus(), { signal });
      this.#restore();
      this.#follow();
    }

    disconnectedCallback(): void {
      this.#disconnected?.abort();
      const waiting = this.#jobs.splice(0); // the first goes back onto the line
      for (const { entry } of waiting) entry.remove();
      const line = this.#input.value || (waiting[0]?.line ?? "");
      kept.set(this.#key, { log: this.#log.innerHTML, line });
    }

    get #key(): string {
      return `${this.#page}#${this.id}`;
    }

    get #machine(): string {
      return machines.get(this.#page) ?? this.dataset.machine ?? "";
    }

    get #log(): HTMLElement {
      return this.querySelector<HTMLElement>(".kv-term-log") ?? this;
    }

    get #input(): HTMLInputElement {
      return this.querySelector<HTMLInputElement>("input[name=line]") as HTMLInputElement;
    }

    get #prompt(): HTMLElement {
      return this.querySelector<HTMLElement>(".kv-term-before") as HTMLElement;
    }

    #restore(): void {
      const before = kept.get(this.#key);
      if (!before) return;
      this.#log.innerHTML = before.log; // this element's own markup of earlier in the visit
      this.#input.value = before.line;
      this.#toEnd();
    }

    // Python -----------------------------------------------------------------------------------

    #follow(): void {
      this.setAttribute("state", runtime.state === "idle" ? "static" : runtime.state);
      this.#showStatus();
      if (runtime.state !== "live") return;
      void this.#look();
      void this.#runJobs();
    }

    #showStatus(): void {
      const place = this.querySelector<HTMLElement>(".kv-status");
      if (place) showStatus(place, runtime, WORDS);
    }

    /** Who puts the hand on the prompt will want an answer soon. */
    #prepare(): void {
      if (runtime.state === "idle" && !waitsForTap()) void runtime.start();
    }

    /** Take over history and facts of the machine, once Python can tell. */
    async #look(): Promise<void> {
      try {
        const answer = await runtime.call<Answer>(MODULE, "look", this.#machine);
        if (this.isConnected && !this.#jobs.length) this.#takeOver(answer);
      } catch (error) {
        if (!(error instanceof Interrupted)) console.error("kv: the machine was not read.", error);
      }
    }

    #send(act: Job["act"], line: string): void {
      const entry = this.#typedLine(line + (act === "stop" ? "^C" : ""));
      this.#jobs.push({ act, line, entry });
      this.#append(entry);
      if (runtime.state === "idle" || runtime.state === "failed") void runtime.start();
      void this.#runJobs();
    }

    async #runJobs(): Promise<void> {
      if (this.#running) return;
      this.#running = true;
      try {
        while (this.#jobs[0] && runtime.state === "live" && this.isConnected) {
          if (!(await this.#runJob(this.#jobs[0]))) break;
        }
      } finally {
        this.#running = false;
      }
    }

    /** Send a line; false when Python was ended meanwhile and the line stays to be sent again. */
    async #runJob(job: Job): Promise<boolean> {
      this.#log.setAttribute("aria-busy", "true");
      const slow = setTimeout(() => this.#note("# Still at work; Ctrl-C ends it.", job), SLOW_MS);
      try {
        const answer = await runtime.call<Answer>(MODULE, job.act, this.#machine, job.line);
        if (this.#jobs[0] !== job) return true; // dropped meanwhile, and nothing has changed
        this.#jobs.shift();
        this.#show(answer, job);
      } catch (error) {
        if (error instanceof Interrupted) return false;
        console.error("kv: this line could not be run.", error);
        if (this.#jobs[0] === job) this.#jobs.shift();
        this.#note("# This line could not be run; the machine is as it was before it.", job);
      } finally {
        clearTimeout(slow);
        this.#log.removeAttribute("aria-busy");
      }
      return true;
    }

    // The screen -------------------------------------------------------------------------------

    #show(answer: Answer, job: Job): void {
      const output = document.createElement("div");
      output.innerHTML = answer.html; // made by kvdocs.html, which escapes everything
      if (answer.clears) this.#clear(job);
      place(job.entry, output);
      machines.set(this.#page, answer.machine);
      this.#takeOver(answer);
      this.#trim();
      this.#toEnd();
    }

    #takeOver(answer: Answer): void {
      this.#history.set(answer.history);
      this.#prompt.textContent = answer.prompt;
      const { facts, widgets, machine } = answer;
      this.dispatchEvent(new CustomEvent("kv-machine", { bubbles: true, detail: { facts, widgets, machine } }));
      if (machines.has(this.#page)) this.#showOnWidget(widgets); // before, the picture is the page's
    }

    /** Let the widget that this terminal names show the server that runs. */
    #showOnWidget(widgets: Answer["widgets"]): void {
      const widget = this.dataset.shows ? document.getElementById(this.dataset.shows) : null;
      const params = widgets[widget?.getAttribute("name") ?? ""];
      const form = widget?.querySelector("form");
      if (!params || !form || JSON.stringify(params) === this.#shownParams) return;
      this.#shownParams = JSON.stringify(params);
      setValues(form, params);
      form.dispatchEvent(new Event("input", { bubbles: true }));
    }

    #typedLine(line: string): HTMLElement {
      const entry = document.createElement("div");
      const typed = document.createElement("kbd");
      const before = document.createElement("span");
      entry.className = "kv-term-typed";
      before.className = "kv-term-prompt";
      before.textContent = `${this.#prompt.textContent} `;
      typed.textContent = line;
      entry.append(before, typed);
      return entry;
    }

    #note(text: string, job: Job): void {
      const line = document.createElement("samp");
      line.className = "kv-term-note";
      line.textContent = text;
      place(job.entry, line);
      this.#toEnd();
    }

    #append(element: HTMLElement): void {
      this.#log.append(element);
      this.#toEnd();
    }

    #toEnd(): void {
      this.#log.scrollTop = this.#log.scrollHeight;
    }

    #clear(except?: Job): void {
      const waiting = this.#jobs.map((job) => job.entry);
      this.#log.replaceChildren(...waiting.filter((entry) => entry !== except?.entry));
    }

    /** A long visit must not make the page slow. */
    #trim(): void {
      const entries = this.#log.children;
      while (entries.length > MOST_ENTRIES) entries[0]?.remove();
    }

    // The keyboard -----------------------------------------------------------------------------

    #submitted(event: Event): void {
      event.preventDefault();
      const line = this.#input.value;
      this.#setLine("");
      if (line.trim()) this.#send("run", line);
      else this.#append(this.#typedLine(""));
    }

    #pressed(event: KeyboardEvent): void {
      if (event.target !== this.#input || event.isComposing) return;
      const { key } = event;
      const plain = !(event.altKey || event.ctrlKey || event.metaKey || event.shiftKey);
      const control = event.ctrlKey && !(event.altKey || event.metaKey || event.shiftKey);
      if (key === "Tab" && plain) this.#tab(event);
      else if (key === "ArrowUp" && plain) this.#walk(-1, event);
      else if (key === "ArrowDown" && plain) this.#walk(1, event);
      else if (control && key.toLowerCase() === "c") this.#stopKey(event);
      else if (control && key.toLowerCase() === "l") this.#clearKey(event);
      if (key === "Escape") {
        this.#leaves = true;
        announce("Tab now leaves the terminal.");
      } else if (key !== "Shift" && key !== "Tab") {
        this.#leaves = false;
      }
    }

    /** Complete, if there is something to complete; otherwise Tab goes where it goes anywhere. */
    #tab(event: KeyboardEvent): void {
      const leaves = this.#leaves;
      this.#leaves = false;
      const line = this.#input.value;
      const atEnd = this.#input.selectionStart === line.length;
      if (leaves || !line.trim() || !atEnd || runtime.state !== "live") return;
      if (this.#known?.line === line && !this.#known.found.candidates.length) return;
      event.preventDefault();
      void this.#complete(true);
    }

    /** Complete the line; Tab goes on to the next control when there was nothing after all. */
    async #complete(byTab: boolean): Promise<void> {
      const line = this.#input.value;
      const found = await this.#completionOf(line);
      if (!found || this.#input.value !== line) return;
      if (!found.candidates.length) {
        if (byTab) this.querySelector<HTMLElement>(".kv-term-key")?.focus();
        else announce("Nothing to complete.");
        return;
      }
      const result = completed(line, found);
      this.#setLine(result.line);
      if (result.choices) this.#offer(line, result.choices);
      else announce(result.line);
    }

    #offer(line: string, choices: string): void {
      const entry = this.#typedLine(line);
      const offered = document.createElement("samp");
      offered.className = "kv-term-note";
      offered.textContent = choices;
      entry.append(offered);
      this.#append(entry);
    }

    async #completionOf(line: string): Promise<Completion | undefined> {
      if (this.#known?.line === line) return this.#known.found;
      try {
        const found = await runtime.call<Completion>(MODULE, "complete", this.#machine, line);
        this.#known = { line, found };
        return found;
      } catch {
        return undefined; // Python was ended; the next Tab asks again
      }
    }

    /** Know ahead whether Tab will have something to complete. */
    #typed(): void {
      const line = this.#input.value;
      if (runtime.state === "live" && line.trim() && !this.#running) void this.#completionOf(line);
    }

    #walk(by: -1 | 1, event: Event): void {
      event.preventDefault();
      const line = this.#history.step(by, this.#input.value);
      if (line !== undefined) this.#setLine(line);
    }

    /** Ctrl-C; with a selection it copies, as anywhere. */
    #stopKey(event: Event): void {
      const { selectionStart, selectionEnd } = this.#input;
      const selected = selectionStart !== selectionEnd || getSelection()?.toString();
      if (selected) return;
      event.preventDefault();
      this.#stop();
    }

    #stop(): void {
      const line = this.#input.value;
      this.#setLine("");
      if (!this.#jobs.length) {
        this.#send("stop", line);
        return;
      }
      for (const job of this.#jobs.splice(0)) this.#note("^C", job);
      if (runtime.state === "live" && this.#running) void runtime.restart();
    }

    #clearKey(event: Event): void {
      event.preventDefault();
      this.#clear();
    }

    #setLine(line: string): void {
      const input = this.#input;
      input.value = line;
      input.setSelectionRange(line.length, line.length);
      this.#typed();
    }

    #pasted(event: ClipboardEvent): void {
      const text = event.clipboardData?.getData("text/plain") ?? "";
      if (event.target !== this.#input || !/[\r\n]/.test(text)) return;
      event.preventDefault();
      const { value, selectionStart, selectionEnd } = this.#input;
      const whole = value.slice(0, selectionStart ?? 0) + text + value.slice(selectionEnd ?? 0);
      const lines = pastedLines(whole);
      this.#setLine(lines.pop() ?? "");
      for (const line of lines) if (line.trim()) this.#send("run", line);
    }

    #clicked(event: MouseEvent): void {
      const target = event.target instanceof Element ? event.target : null;
      const key = target?.closest<HTMLElement>("[data-key]")?.dataset.key;
      if (key === "complete") void this.#complete(false);
      if (key === "earlier") this.#walk(-1, event);
      if (key === "later") this.#walk(1, event);
      if (key === "stop") this.#stop();
      if (key || (target?.closest(".kv-term-screen") && isMouse(event) && !getSelection()?.toString())) {
        this.#input.focus({ preventScroll: true });
      }
    }
  }

  if (!customElements.get("kv-terminal")) customElements.define("kv-terminal", KvTerminal);
}

/** Put output behind the line it belongs to, and behind what came for it before. */
function place(entry: HTMLElement, output: HTMLElement): void {
  let after: Element = entry;
  while (after.nextElementSibling && !after.nextElementSibling.matches(".kv-term-typed")) {
    after = after.nextElementSibling;
  }
  if (entry.isConnected) after.after(output);
}

function isMouse(event: MouseEvent): boolean {
  return event instanceof PointerEvent && event.pointerType === "mouse";
}
