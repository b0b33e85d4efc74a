/** A link that carries an element's state in its fragment: `#kv=VERSION.PAYLOAD`. */

import { isRecord } from "../values";

const VERSION = "1";
const SIGN = "#kv=";
/** Longer links are cut by too many programs on their way. */
const LONGEST_LINK = 16_000;
const LARGEST_STATE = 4 * 2 ** 20;

/** What a link carries. */
export interface Shared {
  /** The element's id. */
  readonly id: string;
  /** What kind of element it is: a link is not for another. */
  readonly of: string;
  readonly state: unknown;
}

/** Why a link cannot be made or opened: one sentence for the reader. */
export class LinkProblem extends Error {
  override readonly name = "LinkProblem";
}

export function isStateLink(hash: string): boolean {
  return hash.startsWith(SIGN);
}

/** The address of a page with an element's state in it. */
export async function linkTo(page: string | URL, shared: Shared): Promise<string> {
  const packed = await deflated(JSON.stringify([shared.id, shared.of, shared.state]));
  const address = new URL(page, location.href);
  address.hash = `${SIGN}${VERSION}.${packed}`;
  if (address.href.length > LONGEST_LINK) {
    const size = Math.ceil(address.href.length / 1000);
    throw new LinkProblem(`This state makes a link of ${size},000 characters; most programs cut links that long.`);
  }
  return address.href;
}

/** Read a fragment. */
export async function sharedIn(hash: string): Promise<Shared> {
  const [version, packed = ""] = hash.slice(SIGN.length).split(".", 2);
  if (version !== VERSION) {
    throw new LinkProblem("This link was made by another version of the lesson; the page stands as it was built.");
  }
  const content = await unpacked(packed);
  if (!Array.isArray(content) || typeof content[0] !== "string" || typeof content[1] !== "string") throw damaged();
  return { id: content[0], of: content[1], state: content[2] };
}

async function unpacked(packed: string): Promise<unknown> {
  try {
    return JSON.parse(await inflated(packed));
  } catch {
    throw damaged();
  }
}

function damaged(): LinkProblem {
  return new LinkProblem("This link is damaged or incomplete; the page stands as it was built.");
}

/** A text field of a state, or a problem. */
export function textIn(state: unknown, name: string): string {
  const text = isRecord(state) ? state[name] : undefined;
  if (typeof text !== "string") throw damaged();
  return text;
}

/** A state's texts by name, or a problem. */
export function textsIn(state: unknown, name: string): Record<string, string> {
  const texts = isRecord(state) ? state[name] : undefined;
  if (!isRecord(texts) || !Object.values(texts).every((text) => typeof text === "string")) throw damaged();
  return texts as Record<string, string>;
}

async function deflated(text: string): Promise<string> {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function inflated(packed: string): Promise<string> {
  const binary = atob(packed.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (letter) => letter.charCodeAt(0));
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  const parts: BlobPart[] = [];
  let size = 0;
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    parts.push(next.value);
    size += next.value.byteLength;
    if (size > LARGEST_STATE) throw damaged();
  }
  return await new Blob(parts).text();
}
