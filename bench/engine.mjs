/** Measures the jumping engine in Pyodide under Node; prints {arrivals: requests per second}. */

import { readFileSync } from "node:fs";

import { packageSources } from "../overrides/runtime/files.mjs";
import { startPlain } from "../overrides/runtime/snapshot.mjs";

const ROOT = new URL("../", import.meta.url).pathname;

const pyodide = await startPlain(packageSources(ROOT));
pyodide.runPython(readFileSync(`${ROOT}bench/load.py`, "utf8"));
const clock = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};
pyodide.globals.set("clock", clock);
const result = pyodide.runPython("import json; json.dumps(requests_per_second(clock))");
process.stdout.write(`${result}\n`, () => process.exit(0));
