/** Fetching files with progress, counted in bytes as the host sends them. */

import { BUILD, asset } from "./build-info";

const REPORT_EVERY_MS = 100;
const browserFetch = globalThis.fetch.bind(globalThis);

export class MissingFile extends Error {
  override readonly name = "MissingFile";

  constructor(readonly file: string, status?: number) {
    super(`${file} could not be fetched${status === undefined ? "" : ` (${status})`}`);
  }
}

interface Part {
  total: number;
  done: number;
}

/** The files of one start, and how much of them has come. */
export class Downloads {
  readonly #parts = new Map<string, Part>();
  readonly #report: (done: number, total: number) => void;
  #reported = 0;

  /** Files named here are counted; the total stands from the first report. */
  constructor(names: readonly string[], report: (done: number, total: number) => void) {
    for (const name of names) this.#parts.set(name, { total: fileSize(name).gzip, done: 0 });
    this.#report = report;
  }

  /** Fetch a file of the build; it is counted while its body comes in. */
  async fetch(name: string): Promise<Response> {
    let response = await request(name, "default");
    if (!response.ok) response = await request(name, "reload"); // a cache may remember an old failure
    if (!response.ok) throw new MissingFile(name, response.status);
    const part = this.#parts.get(name);
    if (part) void this.#count(name, part, response.clone());
    return response;
  }

  /** Count a file that something else fetched (an imported module). */
  finish(name: string): void {
    const part = this.#parts.get(name);
    if (part) part.done = part.total;
    this.#tell(true);
  }

  async #count(name: string, part: Part, copy: Response): Promise<void> {
    const { bytes } = fileSize(name);
    if (!copy.headers.has("content-encoding")) part.total = bytes;
    let read = 0;
    try {
      for await (const chunk of chunks(copy)) {
        read += chunk.byteLength;
        part.done = Math.round(Math.min(1, read / bytes) * part.total);
        this.#tell(false);
      }
      this.finish(name);
    } catch {
      // whoever reads the response itself tells of the failure
    }
  }

  #tell(now: boolean): void {
    if (!now && performance.now() - this.#reported < REPORT_EVERY_MS) return;
    this.#reported = performance.now();
    let done = 0;
    let total = 0;
    for (const part of this.#parts.values()) {
      done += part.done;
      total += part.total;
    }
    this.#report(done, total);
  }
}

/** Bytes of a response, inflated if they are gzip (a host that says so has done it already). */
export async function inflated(response: Response): Promise<Uint8Array> {
  const bytes = new Uint8Array(await response.arrayBuffer());
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes;
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function request(name: string, cache: RequestCache): Promise<Response> {
  try {
    return await browserFetch(asset(name), { cache });
  } catch {
    throw new MissingFile(name);
  }
}

async function* chunks(response: Response): AsyncGenerator<Uint8Array> {
  const reader = response.body?.getReader();
  if (!reader) return;
  for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
}

function fileSize(name: string): { bytes: number; gzip: number } {
  return BUILD.files[name] ?? { bytes: 0, gzip: 0 };
}
