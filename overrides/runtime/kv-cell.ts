/** `<kv-cell>`: a block's code and output as built. The editor comes when the reader asks for it. */

import { asset } from "./build-info";
import { copyText } from "./copy";
import { button } from "./dom";
import { LinkProblem } from "./share/link";
import { SITE } from "./site";
import { isRecord } from "./values";
import type { EditableCell } from "./cells/cell";
import type * as Cells from "./cells/index";

const LONGEST_SHARED = 100_000;

/** The reader's texts of a page are kept in localStorage under keys that begin with this. */
function prefixOf(page: string): string {
  return `kv:cell:${SITE.pathname}:${page}:`;
}

/** Define the element; without it code and output read as they were built. */
export function defineCell(): void {
  let cells: Promise<typeof Cells> | undefined;
  let failures = 0;

  function load(): Promise<typeof Cells> {
    cells ??= (import(asset("cells.js", failures).href) as Promise<typeof Cells>).catch(
      (error: unknown) => {
        cells = undefined;
        failures += 1;
        throw error;
      },
    );
    return cells;
  }

  class KvCell extends HTMLElement {
    #cell: EditableCell | undefined;

    connectedCallback(): void {
      this.querySelector(".kv-cell-bar")?.remove();
      this.append(this.#bar());
      if (hasKeptTexts(this.keyPrefix)) void this.#attach().catch(() => {});
    }

    disconnectedCallback(): void {
      this.#cell?.close();
      this.#cell = undefined;
    }

    get keyPrefix(): string {
      return prefixOf(this.dataset.page ?? "");
    }

    /** What the reader has in the block: the edited text, or the original. */
    get text(): string {
      return this.#cell?.text ?? this.dataset.source ?? "";
    }

    /** What a link to this block carries. */
    sharedState(): unknown {
      return { text: this.text };
    }

    /** Show the text that a link carried, without running it; the reader's own is kept. */
    async openState(state: unknown): Promise<void> {
      const text = isRecord(state) ? state.text : undefined;
      if (typeof text !== "string" || text.length > LONGEST_SHARED) {
        throw new LinkProblem("This link is damaged; the block stands as it was built.");
      }
      if (text === this.text) return;
      try {
        (await this.#attach()).open(text);
      } catch (error) {
        console.warn("kv: the editor did not load.", error);
        throw new LinkProblem("The editor could not be fetched, so the block stands as it was built.");
      }
    }

    #bar(): HTMLElement {
      const bar = document.createElement("div");
      bar.className = "kv-cell-bar";
      const status = document.createElement("p");
      status.className = "kv-cell-status";
      status.setAttribute("role", "status");
      const edit = button("Edit and run", () => void this.#edit(status), "kv-cell-edit");
      bar.append(edit, button("Copy", () => void this.#copy(status), ""), status);
      return bar;
    }

    async #edit(status: HTMLElement): Promise<void> {
      const slow = setTimeout(() => (status.textContent = "Fetching the editor …"), 300);
      try {
        const cell = await this.#attach();
        status.textContent = "";
        if (this.isConnected) cell.edit();
      } catch (error) {
        console.warn("kv: the editor did not load.", error);
        status.textContent = "The editor could not be fetched. Press the button to try again.";
      } finally {
        clearTimeout(slow);
      }
    }

    async #attach(): Promise<EditableCell> {
      const { attach } = await load();
      this.#cell ??= attach(this);
      return this.#cell;
    }

    async #copy(status: HTMLElement): Promise<void> {
      status.textContent = (await copyText(this.text)) ? "Copied." : "This browser does not copy.";
    }
  }

  customElements.define("kv-cell", KvCell);
}

/** The element as the editor sees it. */
export interface CellElement extends HTMLElement {
  readonly keyPrefix: string;
}

function hasKeptTexts(prefix: string): boolean {
  try {
    return Object.keys(localStorage).some((key) => key.startsWith(prefix));
  } catch {
    return false; // storage is forbidden
  }
}
