/**
 * Snapshots as they are stored: the difference to the memory that Pyodide's wasm file sets up.
 *
 * A quarter of a snapshot is data that the wasm file holds anyway; as a difference it is zeros. The
 * difference is undone between the setting up of the memory and Pyodide's own copying of the
 * snapshot into it. Pyodide copies into the 30 MiB it starts with and fails on a larger snapshot,
 * so the memory is also made large enough here. The page's worker and the build use this alike.
 */

const WASM_PAGE = 65_536;

/**
 * Difference of a snapshot to a memory, in place; doing it twice undoes it.
 *
 * @param {Uint8Array} snapshot Pyodide's header, then memory.
 * @param {ArrayBuffer} memory What the memory held at first.
 */
export function applyDifference(snapshot, memory) {
  const heap = heapOf(snapshot);
  const first = new Uint32Array(memory, 0, Math.min(memory.byteLength >> 2, heap.length));
  for (let word = 0; word < first.length; word++) {
    heap[word] = /** @type {number} */ (heap[word]) ^ /** @type {number} */ (first[word]);
  }
}

/**
 * Settings with which Pyodide starts from a stored snapshot; the snapshot is turned whole in place.
 *
 * @template {object} Settings
 * @param {Settings} settings Emscripten's settings, changed in place.
 * @param {Uint8Array} snapshot As stored.
 * @returns {Settings} The same settings.
 */
export function startingFrom(settings, snapshot) {
  const bytes = heapOf(snapshot).byteLength;
  return onceInstantiated(settings, (memory) => {
    applyDifference(snapshot, memory.buffer);
    const missing = bytes - memory.buffer.byteLength;
    if (missing > 0) memory.grow(Math.ceil(missing / WASM_PAGE));
  });
}

/**
 * Have Pyodide's memory handed out as soon as its wasm file has set it up.
 *
 * @template {object} Settings
 * @param {Settings} settings Emscripten's settings, changed in place.
 * @param {(memory: WebAssembly.Memory) => void} use
 * @returns {Settings} The same settings.
 */
export function onceInstantiated(settings, use) {
  /** @type {{ instantiateWasm?: any }} */
  const { instantiateWasm } = settings;
  /** @type {(imports: unknown, done: (instance: any, module: unknown) => unknown) => unknown} */
  const instantiate = (imports, done) =>
    instantiateWasm(imports, (/** @type {any} */ instance, /** @type {unknown} */ module) => {
      use(instance.exports.memory);
      return done(instance, module);
    });
  return Object.assign(settings, { instantiateWasm: instantiate });
}

/**
 * The memory inside a snapshot. Its second word says where it begins.
 *
 * @param {Uint8Array} snapshot
 * @returns {Uint32Array}
 */
function heapOf(snapshot) {
  const { buffer, byteOffset, byteLength } = snapshot;
  const start = byteLength < 8 ? 0 : new DataView(buffer, byteOffset).getUint32(4, true);
  const words = (byteLength - start) / 4;
  if (start < 8 || words <= 0 || !Number.isInteger(words)) throw new Error("this is no snapshot");
  return new Uint32Array(buffer, byteOffset + start, words);
}
