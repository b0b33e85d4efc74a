/** The reader's work as one file: written, and read back beside what is there. */

import { isRecord } from "../values";
import { merged, progressFrom } from "./state";
import type { ProgressStore } from "./store";
import { type Texts, addTexts, forAnyHost, forThisHost, ownTexts } from "./own-keys";
import { count } from "./words";

const FORMAT = "the-kv-cache-progress";
const VERSION = 1;
const LARGEST = 10e6;

/** A file that cannot be imported; the message is one sentence. */
export class BadFile extends Error {
  override readonly name = "BadFile";
}

/** Save progress, answers and texts as a file; returns what to tell. */
export function saveFile(store: ProgressStore): string {
  const texts = forAnyHost(ownTexts());
  const content = { format: FORMAT, version: VERSION, progress: store.progress, texts };
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(
    new Blob([`${JSON.stringify(content, null, 2)}\n`], { type: "application/json" }),
  );
  anchor.download = "kv-cache-progress.json";
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
  return `Saved as kv-cache-progress.json: your progress and ${count(Object.keys(texts).length, "answer or text", "answers and texts")}.`;
}

/** Add a file's content to what is there; nothing of the reader's is replaced. Returns what to tell. */
export async function readFile(file: File, store: ProgressStore): Promise<string> {
  if (file.size > LARGEST) throw new BadFile("it is larger than 10 MB.");
  const content = parsed(await file.text());
  if (!isRecord(content) || content.format !== FORMAT) {
    throw new BadFile("it is not a file that this page has exported.");
  }
  if (content.version !== VERSION) {
    throw new BadFile(`it has version ${String(content.version).slice(0, 20)}; this page reads version ${VERSION}.`);
  }
  const progress = progressFrom(content.progress);
  if (!progress) throw new BadFile("it is damaged.");
  const told = addTexts(forThisHost(textsOf(content.texts)));
  store.update((mine) => merged(mine, progress));
  return [
    `Imported: your progress is joined with the file's, and ${count(told.added, "answer or text", "answers and texts")} came with it.`,
    told.differing ? ` ${count(told.differing, "text differs", "texts differ")} from yours; yours stayed.` : "",
    told.refused ? ` ${count(told.refused, "text", "texts")} found no room in this browser.` : "",
  ].join("");
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new BadFile("it is not JSON.");
  }
}

function textsOf(value: unknown): Texts {
  if (!isRecord(value)) return {};
  return Object.fromEntries(
    Object.entries(value).filter((pair): pair is [string, string] => typeof pair[1] === "string"),
  );
}
