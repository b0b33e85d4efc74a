/** The lines below a block that ask or tell something about its text. */

export type Choice = readonly [label: string, press: () => void];

export class Notes {
  readonly element = document.createElement("div");
  readonly #lines = new Map<string, HTMLElement>();

  constructor(after: HTMLElement) {
    this.element.className = "kv-cell-notes";
    this.element.setAttribute("role", "status");
    after.after(this.element);
  }

  /** Show a line, in place of the one of the same name. */
  show(name: string, sentence: string, choices: readonly Choice[] = []): void {
    const line = document.createElement("p");
    line.append(sentence);
    for (const [label, press] of choices) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = label;
      button.addEventListener("click", press);
      line.append(" ", button);
    }
    const old = this.#lines.get(name);
    if (old?.textContent === line.textContent) return;
    this.#lines.set(name, line);
    if (old) old.replaceWith(line);
    else this.element.append(line);
  }

  clear(name: string): void {
    this.#lines.get(name)?.remove();
    this.#lines.delete(name);
  }
}
