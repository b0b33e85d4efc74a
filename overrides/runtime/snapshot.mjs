/**
 * Python's memory with the package imported and its parts used once, as one gzip file.
 *
 * Restoring it takes a quarter of the time of starting Python. The two Pyodide options behind it
 * (`_makeSnapshot`, `_loadSnapshot`) are not a stable interface: the version is pinned, and each
 * snapshot is restored and compared with a plain start before it is kept.
 */

import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync, gzipSync } from "node:zlib";

import { loadPyodide } from "pyodide";

import { withoutDocstrings } from "./lean.mjs";
import { applyDifference, onceInstantiated, startingFrom } from "./memory.js";

const WARM = readFileSync(new URL("warm.py", import.meta.url), "utf8");
const EVERYTHING = readFileSync(new URL("everything.py", import.meta.url), "utf8");
/** The packages of the Pyodide distribution that the site serves itself: none. */
export const LOCK = {
  info: JSON.parse(readFileSync(fileURLToPath(import.meta.resolve("pyodide/pyodide-lock.json")))).info,
  packages: {},
};
const PYODIDE = fileURLToPath(new URL(".", import.meta.resolve("pyodide")));
/** More than this is a mistake in what is imported: each byte is copied at every start. */
const LARGEST_MEMORY = 64 * 2 ** 20;
const LARGEST_BLOCK = 4 * 2 ** 20;
const SMALLEST_BLOCK = 16;

/** Hash input: a change of this file, memory.js, lean.mjs or the two scripts makes a new snapshot. */
export const RECIPE = [import.meta.url, ...["memory.js", "lean.mjs"].map((name) => new URL(name, import.meta.url))]
  .map((url) => readFileSync(fileURLToPath(url), "utf8"))
  .concat(WARM, EVERYTHING)
  .join();

/** The sources as a page gets them. */
export async function leanSources(sources) {
  return withoutDocstrings(await loadPyodide({ lockFileContents: LOCK }), sources);
}

/** Make a snapshot of Python with these sources, stamped with `build`; returns it and its size unpacked. */
export async function makeSnapshot(sources, build) {
  const { pyodide, firstMemory, holdMemory, freeMemory } = await startHoldable();
  writeSources(pyodide, sources);
  runApart(pyodide, WARM, "warm.py");
  pyodide.globals.set("__kv_build__", build);
  pyodide.runPython("import gc; gc.collect()");
  const memory = pyodide._module.HEAPU8.length;
  if (memory > LARGEST_MEMORY) {
    throw new Error(
      `Python's memory grew to ${memory} bytes while it was warmed up; at most ` +
        `${LARGEST_MEMORY} go into a snapshot. Import or draw less in overrides/runtime/warm.py.`,
    );
  }
  holdMemory();
  zeroFreeMemory(pyodide._module);
  const snapshot = pyodide.makeMemorySnapshot();
  applyDifference(snapshot, firstMemory);
  const packed = gzipSync(snapshot, { level: 9 });
  freeMemory();
  const drawn = runApart(pyodide, EVERYTHING, "everything.py");
  await check(packed, build, drawn, sources);
  return { packed, memory };
}

/**
 * Restore a snapshot as a page does, and compare what it draws with what a plain start drew.
 *
 * Of the standard library it has what its memory holds, as on a page before the rest has come.
 */
async function check(packed, build, drawn, sources) {
  const pyodide = await startRestored(gunzipSync(packed), sources, { stdLibURL: emptyLibrary() });
  if (pyodide.globals.get("__kv_build__") !== build) throw new Error("the snapshot lost its stamp");
  if (runApart(pyodide, EVERYTHING, "everything.py") !== drawn) {
    throw new Error("Python restored from the snapshot draws other pictures than a plain start");
  }
}

/** Python restored from a snapshot; `settings` are Pyodide's. */
export async function startRestored(snapshot, sources, settings = {}) {
  const createModule = await pyodideModule();
  const pyodide = await loadPyodide({
    lockFileContents: LOCK,
    ...settings,
    _loadSnapshot: snapshot,
    createPyodideModule: (options) => createModule(startingFrom(options, snapshot)),
  });
  writeSources(pyodide, sources);
  return pyodide;
}

/** Python as the page starts it without a snapshot. */
export async function startPlain(sources) {
  const pyodide = await loadPyodide({ lockFileContents: LOCK });
  writeSources(pyodide, sources);
  return pyodide;
}

function emptyLibrary() {
  const path = join(mkdtempSync(join(tmpdir(), "kv-")), "python_stdlib.zip");
  writeFileSync(path, Uint8Array.of(0x50, 0x4b, 5, 6, ...new Array(18).fill(0)));
  return path;
}

async function pyodideModule() {
  return (await import(`${PYODIDE}pyodide.asm.mjs`)).default;
}

/** Start Python such that its first memory is known and its memory can be kept from growing. */
async function startHoldable() {
  const createModule = await pyodideModule();
  let firstMemory;
  let held = false;
  const keepHold = (settings) => {
    const instantiate = settings.instantiateWasm;
    settings.instantiateWasm = (imports, done) => {
      const grow = imports.env.emscripten_resize_heap;
      imports.env.emscripten_resize_heap = (size) => (held ? 0 : grow(size));
      return instantiate(imports, done);
    };
    return onceInstantiated(settings, (memory) => (firstMemory = memory.buffer.slice(0)));
  };
  const pyodide = await loadPyodide({
    _makeSnapshot: true,
    lockFileContents: LOCK,
    createPyodideModule: (settings) => createModule(keepHold(settings)),
  });
  return {
    pyodide,
    firstMemory,
    holdMemory: () => (held = true),
    freeMemory: () => (held = false),
  };
}

/** Overwrite freed memory with zeros: what was there is of no use and compresses badly. */
function zeroFreeMemory(module) {
  const blocks = [];
  for (let size = LARGEST_BLOCK; size >= SMALLEST_BLOCK; size /= 2) {
    for (let block = module._malloc(size); block; block = module._malloc(size)) {
      module.HEAPU8.fill(0, block, block + size);
      blocks.push(block);
    }
  }
  for (const block of blocks) module._free(block);
}

function writeSources(pyodide, sources) {
  const site = pyodide.runPython("import site; site.getsitepackages()[0]");
  for (const [name, text] of Object.entries(sources)) {
    const path = `${site}/${name}`;
    pyodide.FS.mkdirTree(path.slice(0, path.lastIndexOf("/")));
    pyodide.FS.writeFile(path, text);
  }
}

/** Run a script in a namespace of its own; returns the value of its last line. */
function runApart(pyodide, script, filename) {
  const namespace = pyodide.toPy({});
  const value = pyodide.runPython(script, { globals: namespace, filename });
  namespace.destroy();
  return value;
}
