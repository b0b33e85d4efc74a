/** The one line that says where a picture stands: static, starting, live, or why not. */

import { BUILD } from "./build-info";
import { waitsForTap } from "./intent";
import type { Runtime } from "./runtime";

const MEGABYTE = 1e6;

interface Line {
  /** Said by screen readers when it changes. */
  readonly text: string;
  /** Shown beside it, changing too often to be said. */
  readonly detail?: string;
  readonly button?: string;
}

/** What differs between the elements that have such a line. */
export interface StatusWords {
  /** Said before Python is started. */
  readonly idle: string;
  /** Said while Python is there; "Live" if not given. */
  readonly live?: string;
  /** Said when it does not start: what the reader still has. */
  readonly stays: string;
  /** Whether a reader who saves data is offered a button here. */
  readonly offersStart: boolean;
}

export const PICTURE: StatusWords = {
  idle: "Static picture",
  stays: "The picture stays as it was built.",
  offersStart: true,
};

/** A picture whose controls hold what was refused. */
export const STALE_PICTURE: StatusWords = {
  ...PICTURE,
  live: "Not updated: this picture shows the last settings that worked",
};

/** Draw the status of an element whose status line stands in the page. */
export function showStatus(element: HTMLElement, runtime: Runtime, words = PICTURE): void {
  draw(element, lineOf(runtime, words), () => void runtime.start());
}

function lineOf(runtime: Runtime, words: StatusWords): Line {
  switch (runtime.state) {
    case "idle":
      return idleLine(words);
    case "booting":
      return bootingLine(runtime);
    case "live":
      return { text: words.live ?? "Live" };
    case "failed":
      return {
        text: `Python did not start: ${runtime.failure}. ${words.stays}`,
        button: "Try again",
      };
  }
}

function idleLine({ idle, offersStart }: StatusWords): Line {
  if (!offersStart || !waitsForTap()) return { text: idle };
  return { text: idle, button: `Make it live (${megabytes(startSize())} MB)` };
}

function bootingLine(runtime: Runtime): Line {
  const { stage, done, total } = runtime.progress;
  if (stage === "restoring") return { text: "Starting Python: restoring its memory" };
  if (stage === "starting") return { text: "Starting Python: loading its modules" };
  const text = "Starting Python: fetching the runtime";
  return total ? { text, detail: `, ${megabytes(done)} of ${megabytes(total)} MB` } : { text };
}

function draw(element: HTMLElement, line: Line, press: () => void): void {
  const key = JSON.stringify([line.text, line.button]);
  if (element.dataset.shown !== key) {
    const hadFocus = element.contains(document.activeElement);
    element.replaceChildren(span(line.text), span("", true), ...buttons(line, press));
    element.dataset.shown = key;
    if (hadFocus) focusOn(element);
  }
  const detail = element.children[1];
  if (detail) detail.textContent = line.detail ?? "";
}

function buttons(line: Line, press: () => void): Node[] {
  if (!line.button) return [];
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = line.button;
  button.addEventListener("click", press);
  return [" ", button].map((node) => (typeof node === "string" ? new Text(node) : node));
}

function span(text: string, quiet = false): HTMLSpanElement {
  const element = document.createElement("span");
  element.textContent = text;
  if (quiet) element.setAttribute("aria-hidden", "true");
  return element;
}

/** The button that was pressed is gone; keep the keyboard where it was. */
function focusOn(element: HTMLElement): void {
  element.tabIndex = -1;
  element.focus({ preventScroll: true });
}

function startSize(): number {
  const names = ["pyodide/pyodide.asm.wasm", "pyodide/pyodide.asm.mjs", "pyodide/snapshot.bin.gz"];
  return names.reduce((sum, name) => sum + (BUILD.files[name]?.gzip ?? 0), 0);
}

function megabytes(bytes: number): string {
  return (bytes / MEGABYTE).toFixed(1);
}
