/** Start again from nothing, with a way back as long as this tab is open. */

import { SITE } from "../site";
import { type Texts, addTexts, ownTexts, removeTexts } from "./own-keys";
import { isRecord } from "../values";
import { NOTHING, type Progress, merged, progressFrom } from "./state";
import type { ProgressStore } from "./store";

const UNDO_KEY = `kv:undo:${SITE.pathname}`;

interface Removed {
  readonly progress: Progress;
  readonly texts: Texts;
}

let removed: Removed | undefined = remembered();

export function canUndoReset(): boolean {
  return removed !== undefined;
}

/** Forget progress, answers and texts; returns what to tell. */
export function resetAll(store: ProgressStore): string {
  const texts = ownTexts();
  const { progress } = store;
  if (Object.keys(texts).length === 0 && Object.keys(progress.steps).length === 0 && !progress.last) {
    return "There is nothing to reset.";
  }
  removed = { progress, texts };
  remember(removed);
  removeTexts(Object.keys(texts));
  store.replace(NOTHING);
  return "Progress, answers and changed code are gone from this browser. You can undo this while this tab is open.";
}

/** Bring back what the reset took, beside what was done since; returns what to tell. */
export function undoReset(store: ProgressStore): string {
  if (!removed) return "";
  const { progress, texts } = removed;
  removed = undefined;
  remember(undefined);
  addTexts(texts);
  store.replace(merged(progress, store.progress));
  return "All is back.";
}

function remember(what: Removed | undefined): void {
  try {
    if (what) sessionStorage.setItem(UNDO_KEY, JSON.stringify(what));
    else sessionStorage.removeItem(UNDO_KEY);
  } catch {
    // it is still known as long as this page is open
  }
}

function remembered(): Removed | undefined {
  try {
    const kept: unknown = JSON.parse(sessionStorage.getItem(UNDO_KEY) ?? "null");
    if (!isRecord(kept) || !isRecord(kept.texts)) return undefined;
    const progress = progressFrom(kept.progress);
    return progress && { progress, texts: kept.texts as Texts };
  } catch {
    return undefined;
  }
}
