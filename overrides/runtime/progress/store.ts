/** The reader's progress under one key of their browser; other tabs' changes are seen and kept. */

import { SITE } from "../site";
import { NOTHING, type Progress, merged, progressFrom } from "./state";

/** `1` is the version of what is kept there. */
export const PROGRESS_KEY = `kv:progress:1:${SITE.pathname}`;

/** Tells of every change with a `change` event. */
export class ProgressStore extends EventTarget {
  /** What storage refused to take, for as long as this visit lasts. */
  #unsaved: Progress | undefined;

  constructor() {
    super();
    addEventListener("storage", ({ key }) => {
      if (key === PROGRESS_KEY || key === null) this.#changed();
    });
  }

  get progress(): Progress {
    const stored = read();
    return this.#unsaved ? merged(this.#unsaved, stored) : stored;
  }

  /** Whether what was done will be there at the next visit. */
  get isKept(): boolean {
    return this.#unsaved === undefined;
  }

  /** Change what is there now, another tab's work included. */
  update(change: (progress: Progress) => Progress): void {
    const before = this.progress;
    const after = change(before);
    if (after !== before) this.#write(after);
  }

  /** Put this in the place of all there is. */
  replace(progress: Progress): void {
    this.#unsaved = undefined;
    this.#write(progress);
  }

  #write(progress: Progress): void {
    try {
      localStorage.setItem(PROGRESS_KEY, JSON.stringify(progress));
      this.#unsaved = undefined;
    } catch {
      this.#unsaved = progress; // storage is full or forbidden
    }
    this.#changed();
  }

  #changed(): void {
    this.dispatchEvent(new Event("change"));
  }
}

function read(): Progress {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(PROGRESS_KEY) ?? "null");
    return progressFrom(stored) ?? NOTHING;
  } catch {
    return NOTHING; // storage is forbidden, or what is there is damaged
  }
}
