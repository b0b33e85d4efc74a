/**
 * Everything the site needs in the browser, into build/browser/.
 *
 *   node overrides/runtime/build.mjs [--package FOLDER] [--out FOLDER]
 *
 * FOLDER of the package holds `kvdocs/`. The snapshot is made anew only when the package, the
 * version of Pyodide or the recipe changed.
 */

import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { build } from "esbuild";

import { fileSize, filesBelow, hashOf, packageSources } from "./files.mjs";
import { LOCK, RECIPE, leanSources, makeSnapshot } from "./snapshot.mjs";
import { getWheels, wantedWheels } from "./wheels.mjs";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const ROOT = join(HERE, "..", "..");
const PYODIDE = join(ROOT, "node_modules", "pyodide");
const PYODIDE_FILES = ["pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip"];
const LICENCES =
  "/*! The KV Cache, MIT. With Pyodide (MPL-2.0), Comlink (Apache-2.0) and Idiomorph (0BSD); in cells.js CodeMirror (MIT); in charts.js Vega, " +
  "Vega-Lite, vega-embed, vega-tooltip and vega-themes (BSD-3-Clause), D3 (ISC), fast-json-patch (MIT), semver (ISC) and tslib (0BSD). */";
/** The oldest browsers Pyodide supports. */
const BROWSERS = ["chrome112", "firefox112", "safari16.4"];

const { values: options } = parseArgs({
  options: {
    package: { type: "string", default: ROOT },
    out: { type: "string", default: join(ROOT, "build", "browser") },
  },
});

const say = (text) => console.log(`browser: ${text}`);
const readJson = (path) => JSON.parse(readFileSync(path, "utf8"));
const inOut = (...names) => join(options.out, ...names);

async function main() {
  mkdirSync(inOut("pyodide"), { recursive: true });
  const version = readJson(join(PYODIDE, "package.json")).version;
  const sources = packageSources(options.package);
  const kvdocs = hashOf(JSON.stringify(sources));
  copyPyodide();
  const snapshot = await freshSnapshot({ version, sources, kvdocs });
  const packages = await serveWheels();
  const files = sizes([...PYODIDE_FILES, "snapshot.bin.gz"].map((name) => `pyodide/${name}`));
  const lock = { ...LOCK, packages };
  const id = hashOf(kvdocs, snapshot, JSON.stringify(lock), ...filesBelow(HERE).map(([, path]) => readFileSync(path)));
  await bundle({ id, kvdocs, pyodide: version, lock, wheels: wantedWheels(), files });
  writeFileSync(
    inOut("manifest.json"),
    JSON.stringify({ id, kvdocs, pyodide: version, snapshot, files }, null, 2),
  );
  say(`done, ${options.out}`);
}

function copyPyodide() {
  for (const name of PYODIDE_FILES) {
    const [from, to] = [join(PYODIDE, name), inOut("pyodide", name)];
    if (!existsSync(to) || fileSize(to).bytes !== fileSize(from).bytes) copyFileSync(from, to);
  }
}

/** Serve the wheels that can be had; returns their entries in Pyodide's list of packages. */
async function serveWheels() {
  const packages = {};
  for (const { entry, bytes } of await getWheels(say)) {
    writeFileSync(inOut("pyodide", entry.file_name), bytes);
    packages[entry.name] = entry;
  }
  return packages;
}

/** Make the sources' file and the snapshot unless those there were made from the same; returns the hash of what they are made from. */
async function freshSnapshot({ version, sources, kvdocs }) {
  const [path, leanPath] = [inOut("pyodide", "snapshot.bin.gz"), inOut("kvdocs.json")];
  const made = existsSync(inOut("manifest.json")) && readJson(inOut("manifest.json")).snapshot;
  const wanted = hashOf(RECIPE, version, kvdocs);
  if (made === wanted && existsSync(path) && existsSync(leanPath)) {
    say("the memory snapshot is up to date");
    return wanted;
  }
  say("making the memory snapshot (about ten seconds)");
  const started = performance.now();
  const lean = await leanSources(sources);
  writeFileSync(leanPath, JSON.stringify(lean));
  const { packed, memory } = await makeSnapshot(lean, kvdocs);
  writeFileSync(path, packed);
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  const size = `${(memory / 2 ** 20).toFixed(0)} MiB of memory in ${(packed.length / 1e6).toFixed(2)} MB`;
  say(`snapshot made and checked in ${seconds} s: ${size}`);
  return wanted;
}

function sizes(names) {
  const all = [...names, "kvdocs.json"];
  return Object.fromEntries(all.map((name) => [name, fileSize(inOut(name))]));
}

async function bundle(info) {
  rmSync(inOut("fonts"), { recursive: true, force: true });
  await build({
    absWorkingDir: ROOT,
    entryPoints: {
      kv: join(HERE, "kv.ts"),
      worker: join(HERE, "worker.ts"),
      charts: join(HERE, "charts.ts"),
      cells: join(HERE, "cells", "index.ts"),
      playground: join(HERE, "kv-playground.ts"),
      fonts: join(HERE, "fonts.css"),
      sw: join(HERE, "offline", "sw.ts"),
    },
    outdir: options.out,
    bundle: true,
    format: "esm",
    minify: true,
    target: BROWSERS,
    define: { KV_BUILD: JSON.stringify(info) },
    external: ["node:*", "ws"],
    loader: { ".woff2": "file" },
    assetNames: "fonts/[name]",
    banner: { js: LICENCES },
    logLevel: "warning",
  });
}

try {
  await main();
  process.exit(0); // Pyodide keeps Node's event loop busy
} catch (error) {
  console.error(`browser: the build failed: ${error.message}`); // not the minified line it came from
  process.exit(1);
}
