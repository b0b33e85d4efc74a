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
}

export interface Started {
  /** How Python came up in the end. */
  readonly mode: "snapshot" | "plain";
}

/** The worker's side of the conversation. */
export interface PythonWorker {
  start(mode: StartMode, report: (progress: Progress) => void): Promise<Started>;
  update(name: string, params: Params): Promise<Answer>;
  /** Call a function of the package with plain values; it returns JSON. */
  call(module: string, name: string, args: readonly Plain[]): Promise<string>;
  /** Fetch the rest of the standard library, once; resolves when imports of it work. */
  completeLibrary(): Promise<void>;
}
