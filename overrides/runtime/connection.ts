/** A worker with Python in it, from its start to its end. */

import * as Comlink from "comlink";

import { asset } from "./build-info";
import type { Progress, PythonWorker, StartMode, Started } from "./messages";

/** Silence longer than this while starting is a failure; a slow download is not silent. */
const SILENCE_MS = 20_000;

/** The worker was ended before it answered. */
export class Interrupted extends Error {
  override readonly name = "Interrupted";
}

/** Calls to the worker fail when it is ended or breaks, instead of waiting for ever. */
export class Connection {
  #worker!: Worker;
  #remote!: Comlink.Remote<PythonWorker>;
  #ended!: Promise<never>;
  #reject!: (reason: Error) => void;
  #hasEnded = false;
  #silence = 0;
  #progress: Progress = { stage: "fetching", done: 0, total: 0 };
  readonly #again: number;

  /** `again` counts the tries after the first. */
  constructor(again: number) {
    this.#again = again;
    this.#open();
  }

  get remote(): Comlink.Remote<PythonWorker> {
    return this.#remote;
  }

  /** Start Python; `report` is told how far it has come. */
  async start(report: (progress: Progress) => void): Promise<Started> {
    const query = new URLSearchParams(location.search);
    const asked: StartMode = query.get("kv-start") === "plain" ? "plain" : "auto";
    try {
      return await this.#start(asked, report);
    } catch (error) {
      // A worker that hung or broke while restoring cannot fall back by itself.
      const hung = this.#progress.stage === "restoring" && isFatal(error);
      if (asked === "plain" || this.#hasEnded || !hung) throw error;
      console.warn("kv: the worker broke while restoring; starting Python from its files.", error);
      this.#open();
      return await this.#start("plain", report);
    }
  }

  /** Wait for an answer, or for the worker's end. */
  call<T>(answer: Promise<T>): Promise<T> {
    return Promise.race([answer, this.#ended]);
  }

  /** End the worker, whatever it is doing; what it was asked fails with this reason. */
  end(reason: Error): void {
    this.#hasEnded = true;
    this.#break(reason);
  }

  #open(): void {
    this.#worker = new Worker(asset("worker.js", this.#again), { type: "module", name: "kv-python" });
    this.#remote = Comlink.wrap<PythonWorker>(this.#worker);
    this.#ended = new Promise<never>((_, reject) => {
      this.#reject = reject;
    });
    this.#ended.catch(() => {});
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#break(new Error(event.message || "worker.js could not be loaded"));
    };
  }

  #break(reason: Error): void {
    clearTimeout(this.#silence);
    this.#worker.terminate();
    this.#reject(reason);
  }

  async #start(mode: StartMode, report: (progress: Progress) => void): Promise<Started> {
    const heard = (progress: Progress): void => {
      this.#progress = progress;
      this.#watch();
      report(progress);
    };
    this.#watch();
    try {
      return await this.call(this.#remote.start(mode, Comlink.proxy(heard)));
    } catch (error) {
      this.#break(error as Error);
      throw error;
    } finally {
      clearTimeout(this.#silence);
    }
  }

  #watch(): void {
    clearTimeout(this.#silence);
    this.#silence = window.setTimeout(() => {
      this.#break(new Error(`nothing happened for ${SILENCE_MS / 1000} seconds`));
    }, SILENCE_MS);
  }
}

/** True when the worker itself is broken, not only the Python code it ran. */
export function isFatal(error: unknown): boolean {
  if (!(error instanceof Error)) return true;
  return !["PythonError", "MissingFile", "Interrupted"].includes(error.name);
}
