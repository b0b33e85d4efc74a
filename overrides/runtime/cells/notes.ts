/** The lines below a block that ask or tell something about its text. */

import { button, make } from "../dom";

export type Choice = readonly [label: string, press: () => void];

export class Notes {
  readonly element = make("div", "kv-cell-notes");
  readonly #lines = new Map<string, HTMLElement>();
  readonly #choices = new Map<string, readonly Choice[]>();
  readonly #focusElsewhere: () => void;

  /** `focusElsewhere` is called when a pressed button goes away. */
  constructor(after: HTMLElement, focusElsewhere: () => void) {
    this.#focusElsewhere = focusElsewhere;
    this.element.setAttribute("role", "status");
    after.after(this.element);
  }

  /** Show a line, in place of the one of the same name. */
  show(name: string, sentence: string, choices: readonly Choice[] = []): void {
    const line = make("p", "", sentence);
    for (const [place, [label]] of choices.entries()) {
      const choice = button(label, () => this.#press(name, place, choice), "");
      line.append(" ", choice);
    }
    this.#choices.set(name, choices);
    const old = this.#lines.get(name);
    if (old?.textContent === line.textContent) return; // said already; its buttons do what is new
    this.#lines.set(name, line);
    if (old) old.replaceWith(line);
    else this.element.append(line);
  }

  clear(name: string): void {
    this.#lines.get(name)?.remove();
    this.#lines.delete(name);
  }

  #press(name: string, place: number, pressed: HTMLElement): void {
    this.#choices.get(name)?.[place]?.[1]();
    if (!pressed.isConnected) this.#focusElsewhere();
  }
}
