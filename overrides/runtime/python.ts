/** The two ways to a running Python: restored from the build's memory snapshot, or from its files. */

import { type Lockfile, type PyodideAPI, type PyodideConfig, loadPyodide } from "pyodide";

import { BASE, BUILD, asset } from "./build-info";
import { Downloads, MissingFile, inflated } from "./download";
import { startingFrom } from "./memory.js";
import { withMemoryLimit } from "./memory-limit";
import type { Progress, Stage, StartMode, Started } from "./messages";

const WASM = "pyodide/pyodide.asm.wasm";
const ASM = "pyodide/pyodide.asm.mjs";
const LIBRARY = "pyodide/python_stdlib.zip";
const SNAPSHOT = "pyodide/snapshot.bin.gz";
const SOURCES = "kvdocs.json";

type Report = (progress: Progress) => void;

export interface Python extends Started {
  readonly pyodide: PyodideAPI;
  /** `kvdocs.widgets.browser.update`: name, parameters (JSON) and, where there is one, state (JSON) to the answer (JSON). */
  readonly update: (name: string, params: string, ...state: string[]) => string;
}

/** Start Python; a snapshot that is missing, damaged or of another build costs time, not the start. */
export async function startPython(mode: StartMode, report: Report): Promise<Python> {
  if (mode === "auto") {
    try {
      return withPackage(await fromSnapshot(report), "snapshot");
    } catch (error) {
      if (error instanceof MissingFile && error.file !== SNAPSHOT) throw error;
      console.warn("kv: the snapshot did not restore; starting Python from its files.", error);
    }
  }
  return withPackage(await fromFiles(report), "plain");
}

function withPackage(pyodide: PyodideAPI, mode: Python["mode"]): Python {
  return { pyodide, mode, update: pyodide.pyimport("kvdocs.widgets.browser").update };
}

async function fromSnapshot(report: Report): Promise<PyodideAPI> {
  const downloads = downloadsOf([WASM, ASM, SNAPSHOT, SOURCES], report, "restoring");
  const snapshot = downloads.fetch(SNAPSHOT).then(inflated);
  const sources = fetchSources(downloads).catch(() => ({}));
  const pyodide = await load(downloads, emptyLibrary(), snapshot);
  if (pyodide.globals.get("__kv_build__") !== BUILD.kvdocs) {
    throw new Error("the snapshot is of another build");
  }
  writeSources(pyodide, await sources);
  return pyodide;
}

async function fromFiles(report: Report): Promise<PyodideAPI> {
  const downloads = downloadsOf([WASM, ASM, LIBRARY, SOURCES], report, "starting");
  const sources = settled(fetchSources(downloads));
  const pyodide = await load(downloads, downloads.fetch(LIBRARY));
  writeSources(pyodide, await sources);
  return pyodide;
}

/** Put the standard library's file where a restored Python looks for modules it does not hold. */
export async function completeLibrary(pyodide: PyodideAPI): Promise<void> {
  const response = await new Downloads([], () => {}).fetch(LIBRARY);
  const path: string = pyodide.runPython(
    "import sys; next(path for path in sys.path if path.endswith('.zip'))",
  );
  pyodide.FS.writeFile(path, new Uint8Array(await response.arrayBuffer()));
  pyodide.runPython("import importlib; importlib.invalidate_caches()");
}

/**
 * Load Pyodide with every file counted.
 *
 * Pyodide fetches two of its files itself and waits for ever when one fails. So they are fetched
 * here, its requests are answered with them, and the first failure ends the start.
 */
async function load(
  downloads: Downloads,
  library: Promise<Response>,
  snapshot?: Promise<Uint8Array>,
): Promise<PyodideAPI> {
  const wasm = downloads.fetch(WASM).then(asWasm);
  const module = importModule(downloads);
  const needed = [wasm, module, library, snapshot ?? Promise.resolve()];
  const failed = new Promise<never>((_, reject) => {
    for (const part of needed) part.catch(reject);
  });
  const restoreFetch = answerFetches({
    [asset(LIBRARY).pathname]: library,
    [asset(WASM).pathname]: wasm,
  });
  try {
    const loaded = loadPyodide({
      ...(snapshot && { _loadSnapshot: snapshot }),
      indexURL: new URL("pyodide/", BASE).href,
      packageBaseUrl: new URL("pyodide/", BASE).href,
      stdLibURL: asset(LIBRARY).href,
      lockFileContents: BUILD.lock as Lockfile,
      async createPyodideModule(settings) {
        const { default: create } = await module;
        withMemoryLimit(settings);
        return create(snapshot ? startingFrom(settings, await snapshot) : settings);
      },
    });
    return await Promise.race([loaded, failed]);
  } finally {
    restoreFetch();
  }
}

type PyodideModule = { default: NonNullable<PyodideConfig["createPyodideModule"]> };

async function importModule(downloads: Downloads): Promise<PyodideModule> {
  const first: Promise<PyodideModule> = import(asset(ASM).href);
  const module = await first
    .catch(() => import(asset(ASM, Date.now()).href) as Promise<PyodideModule>)
    .catch(() => {
      throw new MissingFile(ASM);
    });
  downloads.finish(ASM);
  return module;
}

/** Answer fetches of these paths with responses at hand, until the returned function is called. */
function answerFetches(answers: Record<string, Promise<Response>>): () => void {
  const browserFetch = globalThis.fetch;
  globalThis.fetch = (input, init) => {
    const url = input instanceof Request ? input.url : input;
    return answers[new URL(url, BASE).pathname] ?? browserFetch(input, init);
  };
  return () => {
    globalThis.fetch = browserFetch;
  };
}

/** A response that may be compiled while it streams, whatever type the host gave it. */
function asWasm(response: Response): Response {
  const type = response.headers.get("content-type");
  if (type === "application/wasm") return response;
  return new Response(response.body, { headers: { "content-type": "application/wasm" } });
}

/** What a restored Python starts with: the modules it needs are in its memory. */
function emptyLibrary(): Promise<Response> {
  const endOfZip = Uint8Array.of(0x50, 0x4b, 5, 6, ...new Array<number>(18).fill(0));
  return Promise.resolve(new Response(endOfZip));
}

type Sources = Readonly<Record<string, string>>;

async function fetchSources(downloads: Downloads): Promise<Sources> {
  const response = await downloads.fetch(SOURCES);
  return (await response.json()) as Sources;
}

/** Write the package's files: a plain start imports them, tracebacks quote them. */
function writeSources(pyodide: PyodideAPI, sources: Sources): void {
  const site: string = pyodide.runPython("import site; site.getsitepackages()[0]");
  for (const [name, text] of Object.entries(sources)) {
    const path = `${site}/${name}`;
    pyodide.FS.mkdirTree(path.slice(0, path.lastIndexOf("/")));
    pyodide.FS.writeFile(path, text);
  }
}

function downloadsOf(names: string[], report: Report, after: Stage): Downloads {
  return new Downloads(names, (done, total) =>
    report({ stage: done < total ? "fetching" : after, done, total }),
  );
}

/** The same promise, whose failure is not reported as unhandled before it is awaited. */
function settled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}
