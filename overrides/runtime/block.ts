/** The worker's side of a block's run. */

import type { PyodideAPI } from "pyodide";
import type { PyProxy } from "pyodide/ffi";

import type { BlockRequest, Outcome, StreamName } from "./messages";

/** What is written below Python's own streams, past its limits, is cut here. */
const LARGEST_RAW_OUTPUT = 20_000;

export type Emit = (stream: StreamName, text: string) => unknown;

interface Cells extends PyProxy {
  run_as_json(page: string, number: number, code: string, emit: Emit): string;
  imported_packages(code: string): PyProxy & { toJs(): string[] };
}

/** Run a block in its page's namespace. Packages that the site serves are loaded when imported. */
export async function runBlock(
  pyodide: PyodideAPI,
  { page, number, code }: BlockRequest,
  emit: Emit,
): Promise<Outcome> {
  const cells = pyodide.pyimport("kvdocs.cells") as Cells;
  const names = cells.imported_packages(code);
  await loadServed(pyodide, names.toJs());
  names.destroy();
  catchRawOutput(pyodide, emit);
  return JSON.parse(cells.run_as_json(page, number, code, emit)) as Outcome;
}

async function loadServed(pyodide: PyodideAPI, names: readonly string[]): Promise<void> {
  const served = pyodide.lockfile.packages;
  const wanted = Object.values(served)
    .filter((one) => one.imports.some((name) => names.includes(name)))
    .map((one) => one.name)
    .filter((name) => !(name in pyodide.loadedPackages));
  if (wanted.length > 0) await pyodide.loadPackage(wanted, { messageCallback: () => {} });
}

/** Show what `os.write(1, …)` and C code print; Python's own streams do not come this way. */
function catchRawOutput(pyodide: PyodideAPI, emit: Emit): void {
  let room = LARGEST_RAW_OUTPUT;
  const catching = (stream: StreamName) => {
    const decoder = new TextDecoder();
    const write = (bytes: Uint8Array): number => {
      const part = bytes.subarray(0, room);
      room -= part.length;
      if (part.length > 0) emit(stream, decoder.decode(part, { stream: true }));
      return bytes.length;
    };
    return { write };
  };
  pyodide.setStdout(catching("stdout"));
  pyodide.setStderr(catching("stderr"));
}
