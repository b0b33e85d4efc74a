/** What a run printed and gave, below what was printed when the page was built. */

import { BUILD } from "../build-info";
import { button, link, make } from "../dom";
import type { Outcome, StreamName } from "../messages";
import { inert } from "./inert";

const NAMES: Record<StreamName, string> = { stdout: "", stderr: "kv-out-stderr" };

export class OutputPane {
  readonly element = make("section", "kv-cell-output");
  readonly #body = make("div", "kv-cell-output-body");
  readonly #number: number;
  readonly #printsHtml: boolean;
  #markup = "";
  #last: HTMLElement | undefined;
  #drawn = 0;

  constructor(number: number, printsHtml: boolean, cleared: () => void) {
    this.#number = number;
    this.#printsHtml = printsHtml;
    this.element.hidden = true;
    const head = make("div", "kv-cell-output-head");
    const clear = () => {
      this.clear();
      this.element.hidden = true;
      cleared();
    };
    head.append(make("p", "kv-cell-output-name", "printed now"), button("Clear output", clear, ""));
    Object.assign(this.#body, { tabIndex: 0, role: "region", ariaLabel: `Output of block ${number}` });
    this.element.append(head, this.#body);
  }

  get isEmpty(): boolean {
    return this.#body.childElementCount === 0;
  }

  /** Begin anew. */
  begin(): void {
    this.clear();
    this.element.hidden = false;
  }

  clear(): void {
    this.#body.replaceChildren();
    this.#last = undefined;
    this.#markup = "";
  }

  /** Add printed text. */
  add(stream: StreamName, text: string): void {
    if (this.#printsHtml && stream === "stdout") {
      this.#markup += text;
      return;
    }
    if (this.#last?.dataset.stream !== stream) {
      this.#last = this.#append(make("pre", NAMES[stream]));
      this.#last.dataset.stream = stream;
      if (stream === "stderr") this.#last.append(make("span", "kv-hidden", "Standard error: "));
    }
    this.#last.append(text);
  }

  /** Show how the run ended. */
  finish(outcome: Outcome): void {
    if (this.#markup) this.#draw(this.#markup);
    this.#markup = "";
    if (outcome.dropped > 0) {
      this.note(
        `Output cut: ${outcome.dropped.toLocaleString("en")} more characters were printed and are not kept.`,
      );
    }
    const { kind, content } = outcome.value;
    if (kind === "text") this.#append(make("pre", "kv-out-value", content));
    if (kind === "html") this.#draw(content);
    if (outcome.status === "failed") this.#append(make("pre", "kv-out-error", outcome.error));
    if (outcome.status === "exited") this.note(outcome.error);
    if (outcome.status === "missing package") this.#append(missing(outcome));
    if (outcome.status === "out of memory") {
      this.note("Python ran out of memory (1 GiB). It was started afresh; your text is kept.");
    }
    if (this.isEmpty) this.note("Nothing was printed.");
  }

  note(sentence: string): void {
    this.#append(make("p", "kv-out-note", sentence));
  }

  #append(element: HTMLElement): HTMLElement {
    this.#last = undefined;
    this.#body.append(element);
    return element;
  }

  #draw(markup: string): void {
    this.#drawn += 1;
    const place = this.#append(make("div", "kv-out-drawn"));
    place.append(inert(markup, `kv-out-${this.#number}-${this.#drawn}-`));
  }
}

/** Why an import failed, and what helps. */
function missing({ package: name, in_library: inLibrary }: Outcome): HTMLElement {
  const line = make("p", "kv-out-note");
  if (inLibrary) {
    line.append(`Python in the browser has no module ${name}. Run this block in your own Python.`);
    return line;
  }
  const known = BUILD.wheels.find((wheel) => wheel.name === name);
  if (!known) {
    line.append(
      `${name} is not among the packages of this site: its blocks have Python's standard library and kvdocs. ` +
        `In your own Python: pip install ${name}.`,
    );
    return line;
  }
  const wheel = link(known.url, `${name} ${known.version} for Pyodide ${BUILD.pyodide} (make wheels)`);
  wheel.rel = "noopener noreferrer";
  line.append(
    `This copy of the site was built without ${name}. Whoever builds it can add it: `,
    wheel,
    `. In your own Python: pip install ${name}.`,
  );
  return line;
}
