/** The worker: the one place where Python runs. */

import * as Comlink from "comlink";

import { type Emit, runBlock } from "./block";
import type {
  Answer,
  BlockRequest,
  Outcome,
  Params,
  Plain,
  Progress,
  PythonWorker,
  StartMode,
  Started,
} from "./messages";
import { type Python, completeLibrary, startPython } from "./python";

class Worker implements PythonWorker {
  #python: Python | undefined;
  #library: Promise<void> | undefined;

  async start(mode: StartMode, report: (progress: Progress) => void): Promise<Started> {
    this.#python = await startPython(mode, report);
    const { mode: came } = this.#python;
    if (came === "plain") this.#library = Promise.resolve();
    return { mode: came };
  }

  async update(name: string, params: Params, state?: unknown): Promise<Answer> {
    const states = state === undefined ? [] : [JSON.stringify(state)];
    return JSON.parse(this.#running().update(name, JSON.stringify(params), ...states)) as Answer;
  }

  async call(module: string, name: string, args: readonly Plain[]): Promise<string> {
    const functions = this.#running().pyodide.pyimport(module);
    try {
      return functions[name](...args) as string;
    } finally {
      functions.destroy();
    }
  }

  async completeLibrary(): Promise<void> {
    this.#library ??= completeLibrary(this.#running().pyodide);
    await this.#library.catch((error: unknown) => {
      this.#library = undefined; // the next one to ask tries again
      throw error;
    });
  }

  async runBlock(request: BlockRequest, emit: Emit): Promise<Outcome> {
    const { pyodide } = this.#running();
    await this.completeLibrary().catch((error: unknown) => {
      console.warn("kv: the rest of the standard library did not come.", error);
    });
    return await runBlock(pyodide, request, emit);
  }

  #running(): Python {
    if (!this.#python) throw new Error("Python has not started");
    return this.#python;
  }
}

Comlink.expose(new Worker());
