/**
 * Evaluates the vectors on standard input in Pyodide; prints the outcomes.
 *
 *   node tests/node/run_in_pyodide.mjs plain|snapshot < vectors.json
 *
 * `snapshot` restores the built one (build/browser), as a reader's browser does.
 */

import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";

import { packageSources } from "../../overrides/runtime/files.mjs";
import { startPlain, startRestored } from "../../overrides/runtime/snapshot.mjs";

const ROOT = new URL("../../", import.meta.url).pathname;
const SNAPSHOT = `${ROOT}build/browser/pyodide/snapshot.bin.gz`;

async function main() {
  const sources = packageSources(ROOT);
  const pyodide =
    process.argv[2] === "snapshot"
      ? await startRestored(gunzipSync(readFileSync(SNAPSHOT)), sources)
      : await startPlain(sources);
  pyodide.runPython(readFileSync(`${ROOT}tests/node/evaluate.py`, "utf8"));
  return pyodide.globals.get("evaluate")(readFileSync(0, "utf8"));
}

try {
  const outcomes = await main();
  process.stdout.write(outcomes, () => process.exit(0));
} catch (error) {
  console.error(error.message);
  process.exit(1);
}
