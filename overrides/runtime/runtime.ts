/** The page's one Python: its state, and the worker it lives in. Outlives page changes. */

import * as Comlink from "comlink";

import { asset } from "./build-info";
import type { Answer, Params, Plain, Progress, PythonWorker, StartMode, Started } from "./messages";

export type RuntimeState = "idle" | "booting" | "live" | "failed";

/** Silence longer than this while starting is a failure; a slow download is not silent. */
const SILENCE_MS = 20_000;

/** The worker was ended before it answered. */
export class Interrupted extends Error {
  override readonly name = "Interrupted";
}

/** A worker with its end: calls to it fail when it is ended or breaks, instead of waiting for ever. */
class Connection {
  readonly #worker: Worker;
  readonly remote: Comlink.Remote<PythonWorker>;
  readonly #ended: Promise<never>;
  end!: (reason: Error) => void;

  /** `again` counts the tries after the first. */
  constructor(again: number) {
    this.#worker = new Worker(asset("worker.js", again), { type: "module", name: "kv-python" });
    this.remote = Comlink.wrap<PythonWorker>(this.#worker);
    this.#ended = new Promise<never>((_, reject) => {
      this.end = (reason) => {
        this.#worker.terminate();
        reject(reason);
      };
    });
    this.#ended.catch(() => {});
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.end(new Error(event.message || "worker.js could not be loaded"));
    };
  }

  call<T>(answer: Promise<T>): Promise<T> {
    return Promise.race([answer, this.#ended]);
  }
}

export class Runtime extends EventTarget {
  state: RuntimeState = "idle";
  progress: Progress = { stage: "fetching", done: 0, total: 0 };
  /** How Python came up, once it has. */
  mode: Started["mode"] | undefined;
  /** Why the last start failed, in one sentence. */
  failure = "";
  #connection: Connection | undefined;
  #silence = 0;
  #failures = 0;

  constructor() {
    super();
    this.#setState("idle");
  }

  /** Start Python unless it runs or is starting; also tries again after a failure. */
  async start(): Promise<void> {
    if (this.state === "booting" || this.state === "live") return;
    performance.mark("kv:boot-start");
    this.#setState("booting");
    try {
      this.mode = (await this.#startOrFallBack()).mode;
    } catch (error) {
      this.#fail(error instanceof Error ? error : new Error(String(error)));
      return;
    }
    performance.mark("kv:boot-end");
    this.#setState("live");
  }

  /** End the worker, whatever it is doing, and start a new one. */
  async restart(): Promise<void> {
    this.#connection?.end(new Interrupted("Python was restarted"));
    this.#connection = undefined;
    this.#setState("idle");
    await this.start();
  }

  /** Ask Python for a widget's new picture. */
  update(name: string, params: Params): Promise<Answer> {
    return this.#ask((remote) => remote.update(name, params));
  }

  /** Call a function of the package, which answers in JSON, with plain values. */
  async call<T>(module: string, name: string, ...args: readonly Plain[]): Promise<T> {
    return JSON.parse(await this.#ask((remote) => remote.call(module, name, args))) as T;
  }

  async #ask<T>(question: (remote: Comlink.Remote<PythonWorker>) => Promise<T>): Promise<T> {
    const connection = this.#connection;
    if (!connection || this.state !== "live") throw new Interrupted("Python is not running");
    try {
      return await connection.call(question(connection.remote));
    } catch (error) {
      if (connection === this.#connection && isFatal(error)) void this.restart();
      throw error;
    }
  }

  /** Bring the modules that a restored Python does not hold. */
  async completeLibrary(): Promise<void> {
    const connection = this.#connection;
    if (connection) await connection.call(connection.remote.completeLibrary());
  }

  async #startOrFallBack(): Promise<Started> {
    const asked: StartMode =
      new URLSearchParams(location.search).get("kv-start") === "plain" ? "plain" : "auto";
    try {
      return await this.#connect(asked);
    } catch (error) {
      // A worker that hung or broke while restoring cannot fall back by itself.
      if (asked === "plain" || this.progress.stage !== "restoring" || !isFatal(error)) throw error;
      console.warn("kv: the worker broke while restoring; starting Python from its files.", error);
      return await this.#connect("plain");
    }
  }

  async #connect(mode: StartMode): Promise<Started> {
    const connection = new Connection(this.#failures);
    this.#connection = connection;
    const report = (progress: Progress): void => {
      if (connection !== this.#connection || this.state !== "booting") return;
      this.progress = progress;
      this.#watch(connection);
      this.dispatchEvent(new Event("progress"));
    };
    this.#watch(connection);
    try {
      return await connection.call(connection.remote.start(mode, Comlink.proxy(report)));
    } catch (error) {
      connection.end(error as Error);
      throw error;
    } finally {
      clearTimeout(this.#silence);
    }
  }

  #watch(connection: Connection): void {
    clearTimeout(this.#silence);
    this.#silence = window.setTimeout(() => {
      connection.end(new Error(`nothing happened for ${SILENCE_MS / 1000} seconds`));
    }, SILENCE_MS);
  }

  #fail(error: Error): void {
    if (error instanceof Interrupted) return; // a restart took over
    console.warn("kv: Python did not start.", error);
    this.failure = error.message;
    this.#failures += 1;
    this.#connection = undefined;
    this.#setState("failed");
  }

  #setState(state: RuntimeState): void {
    this.state = state;
    document.documentElement.dataset.kvRuntime = state;
    this.dispatchEvent(new Event("state"));
  }
}

/** True when the worker itself is broken, not only the Python code it ran. */
function isFatal(error: unknown): boolean {
  if (!(error instanceof Error)) return true;
  return !["PythonError", "MissingFile", "Interrupted"].includes(error.name);
}
