/** What the page and the worker say to each other. */

export type Params = Readonly<Record<string, string>>;

/** What can be handed to Python as it is. */
export type Plain = string | number | boolean;

/** `auto` restores the snapshot and falls back to `plain`, which boots Python from its files. */
export type StartMode = "auto" | "plain";

export type Stage = "fetching" | "restoring" | "starting";

export interface Progress {
  readonly stage: Stage;
  /** Bytes fetched and to fetch, as sent by the host. */
  readonly done: number;
  readonly total: number;
}

/** What `kvdocs.widgets.browser.update` answers. */
export interface Answer {
  readonly html: string | null;
  readonly announce: string;
  readonly errors: Readonly<Record<string, string>>;
  /** What a running simulation wants handed back with its next update. */
  readonly state?: unknown;
}

export interface Started {
  /** How Python came up in the end. */
  readonly mode: "snapshot" | "plain";
}

/** A block of a page that is to run. */
export interface BlockRequest {
  /** Blocks of a page share a namespace. */
  readonly page: string;
  /** Position on the page, from 1. */
  readonly number: number;
  readonly code: string;
}

export type StreamName = "stdout" | "stderr";

/** How a block's run ended: `kvdocs.cells.Outcome`, or a package this site does not serve. */
export interface Outcome {
  readonly status: "done" | "failed" | "exited" | "out of memory" | "missing package";
  readonly value: { readonly kind: "nothing" | "text" | "html"; readonly content: string };
  readonly error: string;
  readonly line: number | null;
  readonly package: string;
  readonly in_library: boolean;
  readonly dropped: number;
}

/** The worker's side of the conversation. */
export interface PythonWorker {
  start(mode: StartMode, report: (progress: Progress) => void): Promise<Started>;
  update(name: string, params: Params, state?: unknown): Promise<Answer>;
  /** Run a block; `emit` is told what it prints, while it runs. */
  runBlock(request: BlockRequest, emit: (stream: StreamName, text: string) => void): Promise<Outcome>;
  /** Call a function of the package with plain values; it returns JSON. */
  call(module: string, name: string, args: readonly Plain[]): Promise<string>;
  /** Fetch the rest of the standard library, once; resolves when imports of it work. */
  completeLibrary(): Promise<void>;
}
