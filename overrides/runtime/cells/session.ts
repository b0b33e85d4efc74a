/** The visit's one Python for blocks, and what has run in it. */

import type { Outcome, StreamName } from "../messages";
import { CellPython, NotStarted } from "./python";

/** A block as it would run now. */
export interface Block {
  readonly number: number;
  readonly text: string;
}

/** The block a reader runs. */
export interface Runnable extends Block {
  readonly page: string;
}

export interface RunEvents {
  /** An earlier block is about to run, or the block itself. */
  runs(number: number): void;
  prints(stream: StreamName, text: string): void;
}

export interface Result {
  readonly outcome: Outcome;
  /** Earlier blocks that ran first. */
  readonly first: readonly number[];
  /** Those of them that failed. */
  readonly failed: readonly number[];
  /** Earlier blocks left out: their text was stopped, or broke Python, before. */
  readonly leftOut: readonly number[];
}

interface Ran {
  readonly generation: number;
  readonly numbers: Set<number>;
}

class Session {
  readonly python = new CellPython();
  /** The block that runs, if any. */
  running: Runnable | undefined;
  readonly #ran = new Map<string, Ran>();
  readonly #harmful = new Set<string>();

  /** Run a block of a page, and before it the earlier blocks that have not run yet. */
  async run(
    block: Runnable,
    earlier: readonly Block[],
    events: RunEvents,
  ): Promise<Result> {
    const { page, number, text } = block;
    const first: number[] = [];
    const failed: number[] = [];
    const leftOut: number[] = [];
    this.running = block;
    this.#harmful.delete(idOf(page, block)); // the reader asks for it by name
    try {
      for (const one of earlier) {
        if (this.#hasRun(page).has(one.number)) continue;
        if (this.#harmful.has(idOf(page, one))) {
          leftOut.push(one.number);
          continue;
        }
        const { status } = await this.#runOne(page, one, events, () => {});
        first.push(one.number);
        if (status !== "done") failed.push(one.number);
      }
      const prints = (stream: StreamName, some: string): void => events.prints(stream, some);
      const outcome = await this.#runOne(page, { number, text }, events, prints);
      return { outcome, first, failed, leftOut };
    } finally {
      this.running = undefined;
    }
  }

  async #runOne(
    page: string,
    block: Block,
    events: RunEvents,
    prints: RunEvents["prints"],
  ): Promise<Outcome> {
    await this.python.ready();
    events.runs(block.number);
    const { generation } = this.python;
    try {
      const request = { page, number: block.number, code: block.text };
      const outcome = await this.python.run(request, (stream, text) => {
        if (this.python.generation === generation) prints(stream, text);
      });
      if (outcome.status === "out of memory") this.#harmful.add(idOf(page, block));
      else this.#hasRun(page).add(block.number);
      return outcome;
    } catch (error) {
      if (!(error instanceof NotStarted)) this.#harmful.add(idOf(page, block));
      throw error;
    }
  }

  #hasRun(page: string): Set<number> {
    const { generation } = this.python;
    let ran = this.#ran.get(page);
    if (ran?.generation !== generation) ran = { generation, numbers: new Set() };
    this.#ran.set(page, ran);
    return ran.numbers;
  }
}

function idOf(page: string, block: Block): string {
  return `${page}\n${block.number}\n${block.text}`;
}

export const session = new Session();
