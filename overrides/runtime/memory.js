/** Makes room for a snapshot, in the page's worker and in the build's check alike. */

const WASM_PAGE = 65_536;

/**
 * Let Pyodide's memory be as large as the snapshot's was before the snapshot is copied in.
 *
 * Pyodide itself copies into the memory it starts with (30 MiB), and fails on a larger snapshot.
 *
 * @template {object} Settings
 * @param {Settings} settings Emscripten's settings, changed in place.
 * @param {number} bytes Size of the snapshot.
 * @returns {Settings} The same settings.
 */
export function withRoomFor(settings, bytes) {
  /** @type {{ instantiateWasm?: any }} */
  const { instantiateWasm } = settings;
  /** @type {(imports: unknown, done: (instance: any, module: unknown) => unknown) => unknown} */
  const instantiate = (imports, done) =>
    instantiateWasm(imports, (/** @type {any} */ instance, /** @type {unknown} */ module) => {
      const missing = bytes - instance.exports.memory.buffer.byteLength;
      if (missing > 0) instance.exports.memory.grow(Math.floor(missing / WASM_PAGE));
      return done(instance, module);
    });
  return Object.assign(settings, { instantiateWasm: instantiate });
}
