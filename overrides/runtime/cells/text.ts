/** A block's text as the reader has it: kept while they type, never replaced behind their back. */

import type { CellElement } from "../kv-cell";
import { type Kept, type Other, Place, keptForEarlier } from "./kept";
import type { Notes } from "./notes";

const PAUSE_MS = 400;

const WHERE: Record<Other["from"], string> = {
  reset: "Your text from before the reset is kept.",
  link: "Your own text from before the link is kept.",
  tab: "Another tab has a different text of this block; both are kept.",
  lesson: "Your text for the earlier version of this block is kept.",
};
const UNSAVED =
  "This browser does not let the page save your text (storage is full or turned off). It stays while this page is open.";

export class KeptText {
  readonly #original: string;
  readonly #number: number;
  readonly #place: Place;
  readonly #notes: Notes;
  readonly #show: (text: string) => void;
  #text: string;
  #other: Other | undefined;
  /** What storage held when it was last read or written; anything else is another tab's. */
  #known: string | undefined;
  #dirty = false;
  #timer = 0;

  /** `show` puts a text into the editor, if one is open. */
  constructor(element: CellElement, notes: Notes, show: (text: string) => void) {
    this.#original = element.dataset.source ?? "";
    this.#number = Number(element.dataset.number);
    this.#place = new Place(element.keyPrefix + (element.dataset.key ?? ""));
    this.#notes = notes;
    this.#show = show;
    const kept = this.#place.read();
    this.#text = kept?.text ?? this.#original;
    this.#known = kept?.text;
    this.#other = kept?.other;
    if (kept) this.#tell();
    else this.#offerEarlier(element);
  }

  get text(): string {
    return this.#text;
  }

  /** The reader typed. */
  changed(text: string): void {
    if (text === this.#text) return;
    this.#text = text;
    this.#dirty = true;
    this.#notes.clear("link");
    clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => this.flush(), PAUSE_MS);
  }

  /** Save now what was typed. */
  flush(): void {
    clearTimeout(this.#timer);
    if (this.#dirty) this.#save();
  }

  /** Go back to the original; what stood there is kept. */
  reset(text: string): void {
    if (text !== this.#original) this.#other = { text, from: "reset" };
    this.#put(this.#original);
  }

  /** Show a text that a link carried; the reader's own is kept. */
  adopt(text: string): void {
    if (this.#text !== this.#original) this.#other = { text: this.#text, from: "link" };
    this.#put(text);
    this.#notes.show("link", "This text came with a link. Nothing of it has run.");
  }

  /** Another tab changed storage. */
  heard(event: StorageEvent): void {
    if (event.key !== null && event.key !== this.#place.key) return;
    const stored = this.#place.read();
    if (!stored || stored.text === this.#text) {
      this.#known = stored?.text;
      this.#tell();
      return;
    }
    this.#other = { text: stored.text, from: "tab" };
    this.#known = stored.text;
    this.#tell();
  }

  #save(): void {
    this.#dirty = false;
    const stored = this.#place.read();
    if (stored && stored.text !== this.#known && stored.text !== this.#text) {
      this.#other = { text: stored.text, from: "tab" };
    }
    if (this.#text === this.#original && !this.#other) {
      this.#place.remove();
      this.#known = undefined;
    } else {
      const kept: Kept = { text: this.#text, number: this.#number, ...(this.#other && { other: this.#other }) };
      this.#known = this.#text;
      if (this.#place.write(kept)) this.#notes.clear("unsaved");
      else this.#notes.show("unsaved", UNSAVED);
    }
    this.#tell();
  }

  /** Have this text stand in the block. */
  #put(text: string): void {
    this.#text = text;
    this.#show(text);
    this.#save();
  }

  #tell(): void {
    if (this.#text === this.#original) this.#notes.clear("kept");
    else this.#notes.show("kept", "You have changed this block. Your text is kept in this browser.");
    const other = this.#other;
    if (!other || other.text === this.#text) this.#notes.clear("other");
    else {
      const show = other.from === "reset" ? "Undo the reset" : "Show it";
      this.#notes.show("other", WHERE[other.from], [
        [show, () => this.#swap(other)],
        ["Forget it", () => this.#forget()],
      ]);
    }
  }

  /** Show the other text, and keep the present one in its stead. */
  #swap(other: Other): void {
    const present = this.#text;
    this.#notes.clear("link");
    this.#other = present === this.#original ? undefined : { text: present, from: other.from };
    this.#put(other.text);
  }

  #forget(): void {
    this.#other = undefined;
    this.#save();
  }

  /** The lesson has changed since the reader edited: they choose, and see no old code before. */
  #offerEarlier(element: CellElement): void {
    const present = [...document.querySelectorAll<HTMLElement>("kv-cell")].map((one) => one.dataset.key ?? "");
    const earlier = keptForEarlier(element.keyPrefix, this.#number, new Set(present));
    if (!earlier) return;
    const { place, kept } = earlier;
    const choose = (text: string, other: string): void => {
      this.#other = { text: other, from: "lesson" };
      if (other === this.#original) this.#other = undefined;
      place.remove();
      this.#notes.clear("lesson");
      this.#put(text);
    };
    this.#notes.show("lesson", "This block has changed since you edited it.", [
      ["My version", () => choose(kept.text, this.#original)],
      ["New version", () => choose(this.#original, kept.text)],
    ]);
  }
}
