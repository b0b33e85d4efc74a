/** One block with its editor: what its buttons do, what is kept, what the reader is told. */

import { Interrupted } from "../connection";
import { button, make } from "../dom";
import type { CellElement } from "../kv-cell";
import type { Outcome } from "../messages";
import { Editor } from "./editor";
import { Notes } from "./notes";
import { OutputPane } from "./output";
import { NotStarted } from "./python";
import { type Result, session } from "./session";
import { KeptText } from "./text";

const ASK_AFTER_MS = 30_000;
const SILENT_MS = 300;
const MEGABYTE = 1e6;

/** What this puts into the element. */
const ADDED = ".cm-editor, .kv-cell-hint, .kv-cell-notes, .kv-cell-output";

/** Cells of the page that are in charge, by element. */
const cells = new WeakMap<Element, EditableCell>();

export class EditableCell {
  readonly number: number;
  readonly #element: CellElement;
  readonly #page: string;
  readonly #kept: KeptText;
  readonly #notes: Notes;
  readonly #output: OutputPane;
  readonly #closed = new AbortController();
  #editor: Editor | undefined;
  #stop: HTMLButtonElement | undefined;

  constructor(element: CellElement) {
    this.#element = element;
    this.number = Number(element.dataset.number);
    this.#page = element.dataset.page ?? "";
    const html = element.dataset.result === "html";
    this.#output = new OutputPane(this.number, html, () => {
      this.#tell("Output cleared.");
      this.#focus();
    });
    this.#notes = new Notes(this.#bar, () => this.#focus());
    this.#kept = new KeptText(element, this.#notes, (text) => this.#show(text));
    addEventListener("storage", (event) => this.#kept.heard(event), { signal: this.#closed.signal });
    addEventListener("pagehide", () => this.#kept.flush(), { signal: this.#closed.signal });
    element.append(this.#output.element);
    cells.set(element, this);
  }

  /** What would run now. */
  get text(): string {
    return this.#editor?.text ?? this.#kept.text;
  }

  /** Open the editor in the code's place, and have Python come up meanwhile. */
  edit(): void {
    session.python.warm();
    this.#open();
    this.#editor?.focus();
  }

  /** Show a text that a link carried; nothing runs. */
  open(text: string): void {
    this.#open();
    this.#kept.adopt(text);
  }

  /** The element has left the page. */
  close(): void {
    this.#closed.abort();
    this.#kept.flush();
    if (session.running === this) session.python.stop();
    this.#editor?.destroy();
    this.#editor = undefined;
    for (const added of this.#element.querySelectorAll(ADDED)) added.remove();
    for (const code of this.#element.querySelectorAll<HTMLElement>(":scope > .highlight")) {
      code.hidden = false;
    }
    this.#element.classList.remove("kv-open");
  }

  get #bar(): HTMLElement {
    return this.#element.querySelector(".kv-cell-bar") as HTMLElement;
  }

  #open(): void {
    if (this.#editor) return;
    const hint = this.#hint();
    const name = `Python code of block ${this.number}`;
    this.#editor = new Editor(this.#kept.text, name, hint.id, {
      changed: () => this.#kept.changed(this.text),
      run: () => void this.run(),
    });
    const code = this.#element.querySelector<HTMLElement>(":scope > .highlight");
    if (code) code.hidden = true;
    const bar = this.#bar;
    this.#element.prepend(this.#editor.element, bar, this.#notes.element);
    bar.after(hint);
    bar.querySelector(".kv-cell-edit")?.replaceWith(...this.#runButtons());
    bar.querySelector(".kv-cell-status")?.before(button("Reset", () => this.#reset(), "kv-cell-reset"));
    this.#element.classList.add("kv-open");
  }

  #runButtons(): HTMLElement[] {
    const run = button("Run", () => void this.run(), "kv-cell-run");
    run.setAttribute("aria-keyshortcuts", "Control+Enter Meta+Enter");
    this.#stop = button("Stop", () => this.#stopped(), "kv-cell-stop");
    this.#stop.hidden = true;
    return [run, this.#stop];
  }

  #hint(): HTMLElement {
    const hint = make("p", "kv-cell-hint");
    hint.id = `${this.#element.id}-hint`;
    const run = /mac|iphone|ipad/i.test(navigator.platform) ? "⌘-Enter" : "Ctrl-Enter";
    hint.textContent = `${run} runs. Tab indents; Esc, then Tab leaves the editor.`;
    return hint;
  }

  /** What had the focus is gone: the first button takes it. */
  #focus(): void {
    this.#bar.querySelector<HTMLElement>("button")?.focus({ preventScroll: true });
  }

  #show(text: string): void {
    if (this.#editor) this.#editor.text = text;
  }

  #reset(): void {
    this.#kept.reset(this.text);
    this.#editor?.mark(null);
    this.#tell("The original is back.");
  }

  #tell(sentence: string): void {
    const status = this.#element.querySelector(".kv-cell-status");
    if (status) status.textContent = sentence;
  }

  // --- running ------------------------------------------------------------------------------------

  async run(): Promise<void> {
    if (session.running) {
      this.#tell(`Block ${session.running.number} is still running. Stop it first.`);
      return;
    }
    this.#kept.flush();
    this.#notes.clear("link");
    this.#editor?.mark(null);
    this.#output.begin();
    this.#tell("");
    const running = new Running(this, (sentence) => this.#tell(sentence));
    if (this.#stop) this.#stop.hidden = false;
    try {
      this.#finished(await session.run(this, this.#earlier(), running), running.seconds);
    } catch (error) {
      this.#broke(error);
    } finally {
      running.end();
      this.#notes.clear("slow");
      this.#hideStop();
    }
  }

  get page(): string {
    return this.#page;
  }

  /** A run takes long: ask, without stopping it. */
  ask(seconds: number, goOn: () => void): void {
    this.#notes.show("slow", `This has run for ${seconds} seconds.`, [
      ["Let it run", () => (this.#notes.clear("slow"), goOn())],
      ["Stop it", () => this.#stopped()],
    ]);
  }

  prints(stream: "stdout" | "stderr", text: string): void {
    this.#output.add(stream, text);
  }

  #hideStop(): void {
    const stop = this.#stop;
    if (!stop) return;
    if (stop === document.activeElement) this.#focus();
    stop.hidden = true;
  }

  #stopped(): void {
    if (session.running === this) session.python.stop();
  }

  #earlier(): { number: number; text: string }[] {
    const all = [...document.querySelectorAll<HTMLElement>("kv-cell")];
    return all.slice(0, all.indexOf(this.#element)).map((element) => ({
      number: Number(element.dataset.number),
      text: cells.get(element)?.text ?? element.dataset.source ?? "",
    }));
  }

  #finished({ outcome, first, failed, leftOut }: Result, seconds: number): void {
    this.#output.finish(outcome);
    this.#editor?.mark(outcome.line);
    const said = [ending(outcome, seconds)];
    if (first.length > 0) said.push(`${blocks(first)} ran first.`);
    if (failed.length > 0) said.push(`${blocks(failed)} failed.`);
    if (leftOut.length > 0) said.push(`${blocks(leftOut)} was left out: it had to be stopped before.`);
    this.#tell(said.join(" "));
  }

  #broke(error: unknown): void {
    if (error instanceof Interrupted) {
      this.#output.note("Stopped.");
      this.#tell("Stopped. Python is fresh; earlier blocks run again when they are needed.");
    } else if (error instanceof NotStarted) {
      this.#output.note(`Python did not start: ${error.message}.`);
      this.#tell("Python did not start. Press Run to try again.");
    } else {
      console.warn("kv: a block ended Python.", error);
      this.#output.note("This code ended Python itself. A new one takes over; your text is kept.");
      this.#tell("Python ended and was started afresh.");
    }
  }
}

/** What is said, and asked, while a block runs. */
class Running {
  readonly #cell: EditableCell;
  readonly #tell: (sentence: string) => void;
  readonly #since = performance.now();
  #started = performance.now();
  #slow = 0;
  #long = 0;
  readonly #progress = () => this.#tellProgress();

  constructor(cell: EditableCell, tell: (sentence: string) => void) {
    this.#cell = cell;
    this.#tell = tell;
    session.python.addEventListener("progress", this.#progress);
    this.#slow = window.setTimeout(this.#progress, SILENT_MS);
  }

  get seconds(): number {
    return (performance.now() - this.#started) / 1000;
  }

  runs(number: number): void {
    this.#silence();
    const own = number === this.#cell.number;
    this.#slow = window.setTimeout(() => this.#tell(own ? "Running …" : `Running block ${number} first …`), SILENT_MS);
    if (own) this.#started = performance.now();
    clearTimeout(this.#long);
    this.#watch(ASK_AFTER_MS);
  }

  prints(stream: "stdout" | "stderr", text: string): void {
    this.#cell.prints(stream, text);
  }

  end(): void {
    this.#silence();
    clearTimeout(this.#long);
  }

  #silence(): void {
    clearTimeout(this.#slow);
    session.python.removeEventListener("progress", this.#progress);
  }

  #watch(after: number): void {
    this.#long = window.setTimeout(() => {
      const seconds = Math.round((performance.now() - this.#since) / 1000);
      this.#cell.ask(seconds, () => this.#watch(2 * after));
    }, after);
  }

  #tellProgress(): void {
    const { progress } = session.python;
    if (progress?.stage !== "fetching") return this.#tell("Starting Python …");
    const of = (bytes: number): string => (bytes / MEGABYTE).toFixed(1);
    this.#tell(`Starting Python: ${of(progress.done)} of ${of(progress.total)} MB fetched`);
  }
}

function ending(outcome: Outcome, seconds: number): string {
  const at = outcome.line === null ? "" : ` on line ${outcome.line}`;
  switch (outcome.status) {
    case "done":
      return `Done in ${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s.`;
    case "failed":
      return `${nameOf(outcome.error)}${at}.`;
    case "exited":
      return `Ended${at}.`;
    case "out of memory":
      return `Out of memory${at}.`;
    case "missing package":
      return `${outcome.package} is missing${at}.`;
  }
}

/** `ZeroDivisionError`, from a traceback's last line. */
function nameOf(traceback: string): string {
  const found = /^(?:\w+\.)*(\w+)(?::.*)?$/s.exec(traceback.split("\n").findLast((line) => /^\w/.test(line)) ?? "");
  return found?.[1] ?? "Failed";
}

function blocks(numbers: readonly number[]): string {
  return numbers.length === 1 ? `Block ${numbers[0]}` : `Blocks ${numbers.join(", ")}`;
}
