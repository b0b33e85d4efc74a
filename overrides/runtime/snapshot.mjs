/**
 * Python's memory with the package imported and every widget drawn once, as one gzip file.
 *
 * Restoring it takes a quarter of the time of starting Python. The two Pyodide options behind it
 * (`_makeSnapshot`, `_loadSnapshot`) are not a stable interface: the version is pinned, and each
 * snapshot is restored and compared with a plain start before it is kept.
 */

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gunzipSync, gzipSync } from "node:zlib";

import { loadPyodide } from "pyodide";

const WARM = readFileSync(new URL("warm.py", import.meta.url), "utf8");
const PYODIDE = fileURLToPath(new URL(".", import.meta.resolve("pyodide")));
/** Pyodide's first memory; a snapshot of a memory that has grown does not restore. */
const FIRST_MEMORY = 30 * 2 ** 20;
const LARGEST_BLOCK = 4 * 2 ** 20;
const SMALLEST_BLOCK = 16;

/** Hash input: a change of this file or of warm.py makes a new snapshot. */
export const RECIPE = WARM + readFileSync(fileURLToPath(import.meta.url), "utf8");

/** Make a snapshot of Python with these sources; it is stamped with `build`. */
export async function makeSnapshot(sources, build, lock) {
  const { pyodide, holdMemory } = await startHoldable(lock);
  writeSources(pyodide, sources);
  const drawn = draw(pyodide);
  pyodide.globals.set("__kv_build__", build);
  pyodide.runPython("import gc; gc.collect()");
  if (pyodide._module.HEAPU8.length !== FIRST_MEMORY) {
    throw new Error(
      `Python's memory grew to ${pyodide._module.HEAPU8.length} bytes while the widgets were drawn; ` +
        `a snapshot must fit in ${FIRST_MEMORY}. Import less in overrides/runtime/warm.py.`,
    );
  }
  holdMemory();
  zeroFreeMemory(pyodide._module);
  const packed = gzipSync(pyodide.makeMemorySnapshot(), { level: 9 });
  await check(packed, build, drawn, lock);
  return packed;
}

/** Restore a snapshot as a page does, and compare what it draws with what a plain start drew. */
async function check(packed, build, drawn, lock) {
  const pyodide = await loadPyodide({ lockFileContents: lock, _loadSnapshot: gunzipSync(packed) });
  if (pyodide.globals.get("__kv_build__") !== build) throw new Error("the snapshot lost its stamp");
  if (draw(pyodide) !== drawn) {
    throw new Error("Python restored from the snapshot draws other pictures than a plain start");
  }
}

/** Start Python such that its memory can be kept from growing. */
async function startHoldable(lock) {
  let held = false;
  const { default: createModule } = await import(`${PYODIDE}pyodide.asm.mjs`);
  const pyodide = await loadPyodide({
    _makeSnapshot: true,
    lockFileContents: lock,
    createPyodideModule(settings) {
      const instantiate = settings.instantiateWasm;
      settings.instantiateWasm = (imports, done) => {
        const grow = imports.env.emscripten_resize_heap;
        imports.env.emscripten_resize_heap = (size) => (held ? 0 : grow(size));
        return instantiate(imports, done);
      };
      return createModule(settings);
    },
  });
  return { pyodide, holdMemory: () => (held = true) };
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

function draw(pyodide) {
  const namespace = pyodide.toPy({});
  const drawn = pyodide.runPython(WARM, { globals: namespace, filename: "warm.py" });
  namespace.destroy();
  return drawn;
}
