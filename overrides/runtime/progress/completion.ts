/** The page of what was learned: takeaways of the steps done, what is ahead, and the reader's file. */

import { SITE } from "../site";
import { STEPS, type Step, stepAt } from "./course";
import { button, fill, link, make } from "../dom";
import { BadFile, readFile, saveFile } from "./file";
import { canUndoReset, resetAll, undoReset } from "./reset";
import { type Progress, isDone, nextStep, totalOf } from "./state";
import type { ProgressStore } from "./store";
import { NOT_KEPT, count, totalWords } from "./words";

export function showCompletion(store: ProgressStore): void {
  const page = document.querySelector(".kv-learned");
  if (!page) return;
  const { progress } = store;
  showTakeaways(page, progress);
  const whole = page.querySelector("[data-kv-progress=learned]");
  const words = summary(progress);
  if (whole) fill(whole, words, () => [words]);
  const ahead = page.querySelector("[data-kv-progress=ahead]");
  if (ahead) showAhead(ahead, progress);
  const own = page.querySelector("[data-kv-progress=own]");
  if (own) showOwn(own, store);
}

function summary(progress: Progress): string {
  const total = totalOf(progress, STEPS);
  if (total.done === 0) return "Nothing yet. The takeaway of each step appears here once the step is done.";
  return `${totalWords(total)}.`;
}

/** Only what the reader has done; the static page shows all. */
function showTakeaways(page: Element, progress: Progress): void {
  for (const part of page.querySelectorAll<HTMLElement>("[data-part]")) {
    for (const item of part.querySelectorAll<HTMLElement>("[data-step]")) {
      const step = stepAt(item.dataset.step ?? "");
      item.hidden = !step || !isDone(progress, step);
    }
    const steps = STEPS.filter((step) => String(step.part) === part.dataset.part);
    const total = totalOf(progress, steps);
    part.hidden = total.done === 0;
    const line = part.querySelector("[data-kv-progress=part]");
    if (line) fill(line, totalWords(total), () => [totalWords(total)]);
  }
}

function showAhead(place: Element, progress: Progress): void {
  const open = STEPS.filter((step) => !isDone(progress, step));
  const next = nextStep(progress, STEPS);
  fill(place, open.map((step) => step.path).join(" "), () => {
    if (open.length === 0 || !next) return [];
    const minutes = count(open.reduce((sum, step) => sum + step.minutes, 0), "minute");
    const heading = make("h2", "", `Still ahead: ${count(open.length, "step")}, about ${minutes} of reading`);
    const words = open.length === STEPS.length ? "Start" : "Go on";
    const go = make("p", "", link(addressOf(next), `${words} with step ${next.step}: ${next.title}`));
    return open.length === 1 ? [heading, go] : [heading, go, make("ul", "kv-ahead", ...open.map(item))];
  });
}

function item(step: Step): HTMLLIElement {
  return make("li", "", link(addressOf(step), `${step.step} · ${step.title}`), ` ${step.minutes} min`);
}

function addressOf(step: Step): URL {
  return new URL(step.path, SITE);
}

// --- the reader's own file ------------------------------------------------------------------------

function showOwn(place: Element, store: ProgressStore): void {
  fill(place, "own", () => {
    const status = make("p", "kv-own-status");
    status.setAttribute("role", "status");
    const tell = (words: string): void => void (status.textContent = words);
    const buttons = make(
      "div",
      "kv-own-buttons",
      button("Export as a file", () => tell(saveFile(store))),
      button("Import a file", () => choose(store, tell)),
      button("Reset", () => tell(resetAll(store))),
      button("Undo the reset", () => tell(undoReset(store)), "kv-quiet-button kv-undo"),
    );
    return [buttons, status, make("p", "kv-not-kept")];
  });
  const undo = place.querySelector<HTMLElement>(".kv-undo");
  if (undo) undo.hidden = !canUndoReset();
  const kept = place.querySelector(".kv-not-kept");
  if (kept) kept.textContent = store.isKept ? "" : NOT_KEPT;
}

function choose(store: ProgressStore, tell: (words: string) => void): void {
  const input = make("input", "");
  input.type = "file";
  input.accept = ".json,application/json";
  input.addEventListener("change", () => {
    const file = input.files?.[0];
    if (file) void take(file, store, tell);
  });
  input.click();
}

async function take(file: File, store: ProgressStore, tell: (words: string) => void): Promise<void> {
  try {
    tell(await readFile(file, store));
  } catch (error) {
    if (!(error instanceof BadFile)) throw error;
    tell(`${file.name} was not imported: ${error.message} Nothing was changed.`);
  }
}
