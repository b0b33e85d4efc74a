/** The page's one Python: its state, and the worker it lives in. Outlives page changes. */

import type * as Comlink from "comlink";

import { Connection, Interrupted, isFatal } from "./connection";
import type { Answer, Params, Plain, Progress, PythonWorker, Started } from "./messages";

export { Interrupted };

export type RuntimeState = "idle" | "booting" | "live" | "failed";

export class Runtime extends EventTarget {
  state: RuntimeState = "idle";
  progress: Progress = { stage: "fetching", done: 0, total: 0 };
  /** How Python came up, once it has. */
  mode: Started["mode"] | undefined;
  /** Why the last start failed, in one sentence. */
  failure = "";
  #connection: Connection | undefined;
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
      this.mode = (await this.#connect()).mode;
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

  /** Ask Python for a widget's new picture; `state` is what its last answer carried, if anything. */
  update(name: string, params: Params, state?: unknown): Promise<Answer> {
    return this.#ask((remote) => remote.update(name, params, state));
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

  async #connect(): Promise<Started> {
    const connection = new Connection(this.#failures);
    this.#connection = connection;
    return await connection.start((progress) => {
      if (connection !== this.#connection || this.state !== "booting") return;
      this.progress = progress;
      this.dispatchEvent(new Event("progress"));
    });
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
