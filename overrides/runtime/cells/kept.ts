/** The reader's texts, kept in their browser under the original's key. */

/** A second text beside the reader's own, and where it came from. */
export interface Other {
  readonly text: string;
  /** `reset` and `link`: it stood there before; `tab`: another tab wrote it; `lesson`: for an earlier original. */
  readonly from: "reset" | "link" | "tab" | "lesson";
}

export interface Kept {
  readonly text: string;
  /** Position on the page when it was kept. */
  readonly number: number;
  readonly other?: Other;
}

/** What storage refused to take, for as long as this visit lasts. */
const unsaved = new Map<string, string>();

/** One block's place in storage. */
export class Place {
  readonly key: string;

  constructor(key: string) {
    this.key = key;
  }

  read(): Kept | undefined {
    return parsed(unsaved.get(this.key) ?? stored(this.key));
  }

  /** Keep a text; false when the browser does not let it be saved. */
  write(kept: Kept): boolean {
    const value = JSON.stringify(kept);
    try {
      localStorage.setItem(this.key, value);
      unsaved.delete(this.key);
      return true;
    } catch {
      unsaved.set(this.key, value);
      return false;
    }
  }

  remove(): void {
    unsaved.delete(this.key);
    try {
      localStorage.removeItem(this.key);
    } catch {
      // storage is forbidden, so nothing was there
    }
  }
}

/** A text kept for a block that stood at this position and is no longer on the page. */
export function keptForEarlier(
  prefix: string,
  number: number,
  present: ReadonlySet<string>,
): { place: Place; kept: Kept } | undefined {
  for (const key of keysWith(prefix)) {
    if (present.has(key.slice(prefix.length))) continue;
    const place = new Place(key);
    const kept = place.read();
    if (kept?.number === number) return { place, kept };
  }
  return undefined;
}

function keysWith(prefix: string): string[] {
  try {
    return Object.keys(localStorage).filter((key) => key.startsWith(prefix));
  } catch {
    return [];
  }
}

function stored(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** What is there may be damaged, or not ours. */
function parsed(value: string | null): Kept | undefined {
  try {
    const kept = JSON.parse(value ?? "null") as Partial<Kept> | null;
    if (typeof kept?.text !== "string" || typeof kept.number !== "number") return undefined;
    const { text, number, other } = kept;
    return typeof other?.text === "string" ? { text, number, other } : { text, number };
  } catch {
    return undefined;
  }
}
