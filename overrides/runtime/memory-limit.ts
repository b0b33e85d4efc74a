/** A bound on Python's memory: a reader's loop gets a MemoryError, and the tab lives. */

export const LARGEST_MEMORY = 2 ** 30;

type Imports = { env: { emscripten_resize_heap: (bytes: number) => number } };
type Instantiate = (imports: Imports, done: unknown) => unknown;

/** Settings of Emscripten under which memory does not grow beyond the bound. */
export function withMemoryLimit<Settings extends object>(settings: Settings): Settings {
  const limited = settings as { instantiateWasm?: Instantiate };
  const instantiate = limited.instantiateWasm;
  limited.instantiateWasm = (imports, done) => {
    const grow = imports.env.emscripten_resize_heap;
    imports.env.emscripten_resize_heap = (bytes) =>
      bytes >>> 0 > LARGEST_MEMORY ? 0 : grow(bytes);
    return instantiate?.(imports, done);
  };
  return settings;
}
