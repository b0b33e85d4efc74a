/** What the build knows of itself; build.mjs writes it in as a constant. */
export interface BuildInfo {
  /** Changes with every file below; used as `?v=` so that old and new files never mix. */
  readonly id: string;
  /** Hash of the kvdocs sources, also stamped inside the snapshot. */
  readonly kvdocs: string;
  readonly pyodide: string;
  /** Python packages of the Pyodide distribution that this site serves itself. */
  readonly lock: object;
  /** Packages that blocks may use when the build could get their wheels. */
  readonly wheels: readonly { name: string; version: string; url: string }[];
  readonly files: Readonly<Record<string, FileSize>>;
}

export interface FileSize {
  readonly bytes: number;
  /** Size as sent by a host that compresses. */
  readonly gzip: number;
}

declare const KV_BUILD: BuildInfo;

export const BUILD: BuildInfo = KV_BUILD;

/** Where these scripts, and all they load, are served from. */
export const BASE = new URL(".", import.meta.url);

/** Address of a file of this build; `again` (a count) gets past a failure that a cache remembers. */
export function asset(name: string, again = 0): URL {
  const url = new URL(name, BASE);
  url.searchParams.set("v", BUILD.id);
  if (again) url.searchParams.set("again", String(again));
  return url;
}
