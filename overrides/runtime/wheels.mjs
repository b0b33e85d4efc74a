/**
 * Wheels of the Pyodide distribution that the site serves itself: numpy.
 *
 * They are in no package registry. `build/wheels/` may hold them; else they are fetched from the
 * distribution. Either way the checksum is that of `pyodide-lock.json`. Without them the site is
 * whole but for blocks that import them, and those say so.
 *
 *   node overrides/runtime/wheels.mjs     fetch them into build/wheels/, or say why not
 */

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const WANTED = ["numpy"];
const ANSWER_MS = 8_000;
const WHOLE_MS = 120_000;
export const FOLDER = fileURLToPath(new URL("../../build/wheels", import.meta.url));

/** Pyodide's own list of packages, and where its distribution keeps their files. */
export function distribution() {
  const file = (name) => readFileSync(fileURLToPath(import.meta.resolve(`pyodide/${name}`)), "utf8");
  const { version } = JSON.parse(file("package.json"));
  const address = /https:\/\/[^`"'\s]+\/v\$\{\w+\}\/full\//.exec(file("pyodide.mjs"))?.[0] ?? "";
  return {
    lock: JSON.parse(file("pyodide-lock.json")),
    address: address.replace(/\$\{\w+\}/, version),
    version,
  };
}

/** The wanted packages as a block's message names them. */
export function wantedWheels({ lock, address } = distribution()) {
  return entries(lock).map(({ name, version, file_name }) => ({
    name,
    version,
    url: address + file_name,
  }));
}

/**
 * Get the wheels; returns those at hand as { entry, bytes }. `say` is told, one line each, what is
 * fetched, and what is out of reach and therefore left out.
 */
export async function getWheels(say, { lock, address, version } = distribution(), folder = FOLDER) {
  const found = [];
  for (const entry of entries(lock)) {
    try {
      found.push({ entry, bytes: await wheel(entry, address, folder, say) });
    } catch (error) {
      say(
        `without ${entry.name} (${reason(error)}); to have it, put ${entry.file_name} of Pyodide ` +
          `${version} into build/wheels/, or run make wheels where ${hostOf(address)} can be reached`,
      );
    }
  }
  return found;
}

function entries(lock) {
  return WANTED.map((name) => lock.packages[name]).filter(Boolean);
}

async function wheel(entry, address, folder, say) {
  const path = join(folder, entry.file_name);
  if (existsSync(path)) return checked(readFileSync(path), entry, "the file in build/wheels/");
  const bytes = checked(await download(address + entry.file_name), entry, "what was fetched");
  mkdirSync(folder, { recursive: true });
  writeFileSync(path, bytes);
  say(`fetched ${entry.file_name}, ${(bytes.length / 1e6).toFixed(1)} MB`);
  return bytes;
}

function checked(bytes, { sha256 }, what) {
  const sum = createHash("sha256").update(bytes).digest("hex");
  if (sum !== sha256) throw new Error(`${what} has another checksum than pyodide-lock.json says`);
  return bytes;
}

async function download(address) {
  const stopped = new AbortController();
  const patience = (time) => setTimeout(() => stopped.abort(new Error("no answer in time")), time);
  let timer = patience(ANSWER_MS);
  try {
    const response = await fetch(address, { signal: stopped.signal });
    if (!response.ok) throw new Error(`${hostOf(address)} answered ${response.status}`);
    clearTimeout(timer);
    timer = patience(WHOLE_MS);
    return Buffer.from(await response.arrayBuffer());
  } finally {
    clearTimeout(timer);
  }
}

function reason(error) {
  return error.cause?.code ?? error.cause?.message ?? error.message;
}

function hostOf(address) {
  return address ? new URL(address).host : "its distribution";
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const wheels = await getWheels((text) => console.log(`wheels: ${text}`));
  for (const { entry } of wheels) console.log(`wheels: ${entry.file_name} is in ${FOLDER}`);
  process.exit(wheels.length === WANTED.length ? 0 : 1);
}
