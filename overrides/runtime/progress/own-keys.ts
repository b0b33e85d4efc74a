/** All that this site keeps for the reader besides progress: answers, texts, a terminal's history. */

import { SITE } from "../site";

const OURS = /^kv:(?!progress:)[a-z]+:/;
/** Some keys name the site they belong to; a file leaves that open, so that it fits another host. */
const HERE = `:${SITE.pathname}:`;
const ANYWHERE = ":{site}:";

export type Texts = Readonly<Record<string, string>>;

/** What is kept, by key; nothing where storage is forbidden. */
export function ownTexts(): Texts {
  try {
    return Object.fromEntries(
      Object.keys(localStorage)
        .filter((key) => OURS.test(key) && isOfThisSite(key))
        .map((key) => [key, localStorage.getItem(key) ?? ""]),
    );
  } catch {
    return {};
  }
}

/** Keep texts whose place is free; how many came, how many differ from what is there, how many found no room. */
export function addTexts(texts: Texts): { added: number; differing: number; refused: number } {
  const told = { added: 0, differing: 0, refused: 0 };
  for (const [key, text] of Object.entries(texts)) {
    try {
      const present = localStorage.getItem(key);
      if (present === null) {
        localStorage.setItem(key, text);
        told.added += 1;
      } else if (present !== text) told.differing += 1;
    } catch {
      told.refused += 1;
    }
  }
  return told;
}

export function removeTexts(keys: Iterable<string>): void {
  for (const key of keys) {
    try {
      localStorage.removeItem(key);
    } catch {
      // storage is forbidden, so nothing was there
    }
  }
}

export function forAnyHost(texts: Texts): Texts {
  return renamed(texts, (key) => key.replace(HERE, ANYWHERE));
}

/** The texts of a file under this site's keys; what is not ours is left out. */
export function forThisHost(texts: Texts): Texts {
  return renamed(texts, (key) => (OURS.test(key) ? key.replace(ANYWHERE, HERE) : ""));
}

function renamed(texts: Texts, name: (key: string) => string): Texts {
  const pairs = Object.entries(texts).map(([key, text]) => [name(key), text] as const);
  return Object.fromEntries(pairs.filter(([key]) => key !== ""));
}

/** Cells' keys carry a site's path; one origin may hold several sites. */
function isOfThisSite(key: string): boolean {
  return !key.startsWith("kv:cell:") || key.includes(HERE);
}
