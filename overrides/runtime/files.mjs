/** Small helpers of the build: hashes, sizes, and the package's sources. */

import { createHash } from "node:crypto";
import { readFileSync, readdirSync, statSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { gzipSync } from "node:zlib";

/** Hash of some texts or bytes, in order. */
export function hashOf(...parts) {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part).update("\0");
  return hash.digest("hex").slice(0, 16);
}

/** Every file below a folder, sorted, as [path relative to it with slashes, absolute path]. */
export function filesBelow(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
    .map((path) => [relative(folder, path).split(sep).join("/"), path])
    .sort(([one], [other]) => (one < other ? -1 : 1));
}

/** The package's files as {"kvdocs/…": text}. */
export function packageSources(root) {
  const files = filesBelow(join(root, "kvdocs")).filter(([name]) => !name.includes("__pycache__"));
  return Object.fromEntries(
    files.map(([name, path]) => [`kvdocs/${name}`, readFileSync(path, "utf8")]),
  );
}

/** Size of a file, and its size as a compressing host sends it. */
export function fileSize(path) {
  const { size } = statSync(path);
  const packed = path.endsWith(".gz") || path.endsWith(".zip");
  return { bytes: size, gzip: packed ? size : gzipSync(readFileSync(path)).length };
}
