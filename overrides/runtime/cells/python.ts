/**
 * The worker that runs readers' code, apart from the one that draws pictures: what their code does
 * to its Python, no picture ever sees. A run that takes long warms a spare, which takes over when
 * the run is stopped.
 */

import * as Comlink from "comlink";

import { Connection, Interrupted } from "../connection";
import type { BlockRequest, Outcome, Progress, StreamName } from "../messages";

/** A run that takes longer may have to be stopped; a spare takes its memory only then. */
const SPARE_AFTER_MS = 2_000;
/** GiB; below it there is no room for a spare. */
const ROOM_FOR_SPARE = 4;

/** Python did not come up, so nothing was run. */
export class NotStarted extends Error {
  override readonly name = "NotStarted";
}

interface Warm {
  readonly connection: Connection;
  readonly ready: Promise<unknown>;
}

export class CellPython extends EventTarget {
  /** Counts the workers: a namespace lives as long as its worker. */
  generation = 0;
  /** How far the start has come that a run waits for. */
  progress: Progress | undefined;
  #now: Warm | undefined;
  #spare: Warm | undefined;
  #failures = 0;

  /** Start Python unless it runs; a failure shows when something is run. */
  warm(): void {
    this.#now ??= this.#open();
  }

  /** Resolves when Python is up; fails with NotStarted. */
  async ready(): Promise<void> {
    this.warm();
    try {
      await this.#now?.ready;
    } catch (error) {
      if (error instanceof Interrupted) throw error;
      throw new NotStarted(error instanceof Error ? error.message : String(error));
    }
  }

  /** Run a block; fails with Interrupted when stopped, with another error when Python broke. */
  async run(
    request: BlockRequest,
    emit: (stream: StreamName, text: string) => void,
  ): Promise<Outcome> {
    await this.ready();
    const warm = this.#now as Warm;
    const long = setTimeout(() => this.#warmSpare(), SPARE_AFTER_MS);
    try {
      const { connection } = warm;
      const outcome = await connection.call(
        connection.remote.runBlock(request, Comlink.proxy(emit)),
      );
      if (outcome.status === "out of memory") this.#replace(new Interrupted("out of memory"));
      return outcome;
    } catch (error) {
      if (warm === this.#now) this.#replace(new Interrupted("Python broke"));
      throw error;
    } finally {
      clearTimeout(long);
    }
  }

  /** End what runs, at once. */
  stop(): void {
    this.#replace(new Interrupted("stopped"));
  }

  #replace(reason: Error): void {
    this.#now?.connection.end(reason);
    this.generation += 1;
    this.#now = this.#spare ?? this.#open();
    this.#spare = undefined;
  }

  #warmSpare(): void {
    if ((navigator.deviceMemory ?? 8) >= ROOM_FOR_SPARE) this.#spare ??= this.#open();
  }

  #open(): Warm {
    const connection = new Connection(this.#failures);
    const ready = connection
      .start((progress) => {
        if (this.#now?.connection !== connection) return;
        this.progress = progress;
        this.dispatchEvent(new Event("progress"));
      })
      .then(() => connection.call(connection.remote.completeLibrary()).catch(() => {}));
    const warm = { connection, ready };
    ready.catch((error: unknown) => {
      if (!(error instanceof Interrupted)) this.#forget(warm);
    });
    return warm;
  }

  #forget(warm: Warm): void {
    this.#failures += 1;
    if (this.#spare === warm) this.#spare = undefined;
    if (this.#now !== warm) return;
    this.#now = undefined;
    this.generation += 1;
  }
}
