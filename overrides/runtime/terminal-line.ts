/** The line a reader types: history, completion, and what a paste of several lines means. */

/** What `kvdocs.terminal.browser.complete` answers. */
export interface Completion {
  readonly start: number;
  readonly candidates: readonly string[];
  readonly common: string;
}

const MOST_SHOWN = 60;
const PROMPT = /^\s*(?:[\w-]+(?: ~?\/?[\w./-]*)? )?[$#] /;

/** What was typed before, walked through with the arrow keys; the line begun stays at its end. */
export class LineHistory {
  #lines: readonly string[] = [];
  #at = 0;
  #draft = "";

  set(lines: readonly string[]): void {
    this.#lines = lines;
    this.#at = lines.length;
  }

  /** The line that many steps away, or undefined when there is none. */
  step(by: -1 | 1, current: string): string | undefined {
    const at = this.#at + by;
    if (at < 0 || at > this.#lines.length) return undefined;
    if (this.#at === this.#lines.length) this.#draft = current;
    this.#at = at;
    return this.#lines[at] ?? this.#draft;
  }
}

/** The line after Tab, and what to show when it cannot go on without a choice. */
export function completed(line: string, found: Completion): { line: string; choices: string } {
  const [only, second] = found.candidates;
  const before = line.slice(0, found.start);
  if (only !== undefined && second === undefined) {
    return { line: before + only + (/[/=]$/.test(only) ? "" : " "), choices: "" };
  }
  const longer = before + found.common;
  return { line: longer, choices: longer.length > line.length ? "" : shown(found.candidates) };
}

function shown(candidates: readonly string[]): string {
  const rest = candidates.length - MOST_SHOWN;
  const names = candidates.slice(0, MOST_SHOWN).join("  ");
  return rest > 0 ? `${names}  … and ${rest} more` : names;
}

/** A pasted text as lines: joined where a backslash says so, without the prompts of a copy. */
export function pastedLines(text: string): string[] {
  return text
    .replace(/\r\n?/g, "\n")
    .replace(/\\\n\s*/g, " ")
    .split("\n")
    .map((line) => line.replace(PROMPT, ""));
}
