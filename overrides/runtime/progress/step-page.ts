/** A step's own page: done or not in its head, what is open at its end, and where the reader is. */

import { SITE, pathOf } from "../site";
import { STEPS, type Step, stepAt } from "./course";
import { button, doneMark, fill, link, make } from "../dom";
import { type Progress, answeredOf, isDone, stateOf, totalOf, withPlace, withRead } from "./state";
import type { ProgressStore } from "./store";
import { NOT_KEPT, count, totalWords } from "./words";

const PLACES = ".md-content :is(h2, h3, kv-widget, kv-drill, kv-cell)[id]";
const PAUSE_MS = 800;
/** Below the header: what stands above this line has been read. */
const TOP_PX = 120;

export function showStep(store: ProgressStore): void {
  const step = stepAt(pathOf(location.href));
  if (!step) return;
  const { progress } = store;
  const head = document.querySelector("[data-kv-progress=step]");
  const end = document.querySelector("[data-kv-progress=end]");
  if (head) showHead(head, step, progress);
  if (end) showEnd(end, step, store);
}

function showHead(place: Element, step: Step, progress: Progress): void {
  const words = headWords(step, progress);
  fill(place, words, () => (isDone(progress, step) ? [doneMark(), "Done"] : [words]));
}

function headWords(step: Step, progress: Progress): string {
  if (isDone(progress, step)) return "Done";
  const answered = answeredOf(progress, step);
  return answered === 0 ? "Not done yet" : `${answered} of ${count(step.drills.length, "question")} answered`;
}

function showEnd(place: Element, step: Step, store: ProgressStore): void {
  const { progress } = store;
  const total = totalWords(totalOf(progress, STEPS));
  const key = [total, answeredOf(progress, step), isDone(progress, step), store.isKept].join("|");
  fill(place, key, () => {
    const own = make("p", "", ...(step.drills.length > 0 ? drillWords(step, progress) : readWords(step, store)));
    own.setAttribute("role", "status");
    const whole = make("p", "kv-whole", `${total}. `, link(new URL("completion/", SITE), "What you have learned"));
    return store.isKept ? [own, whole] : [own, whole, make("p", "kv-not-kept", NOT_KEPT)];
  });
}

function drillWords(step: Step, progress: Progress): (Node | string)[] {
  const total = step.drills.length;
  if (isDone(progress, step)) {
    return [doneMark(), `Step ${step.step} is done: ${total === 1 ? "its question is" : `all ${total} questions are`} answered.`];
  }
  const { answered } = stateOf(progress, step.path);
  const open = step.drills.find((name) => !answered.includes(name)) ?? "";
  const id = document.querySelector(`kv-drill[name="${CSS.escape(open)}"]`)?.id ?? "";
  const words = `${answeredOf(progress, step)} of ${count(total, "question")} of this step answered. `;
  return id ? [words, link(`#${id}`, "Go to the open one")] : [words];
}

function readWords(step: Step, store: ProgressStore): (Node | string)[] {
  const mark = (read: boolean) => () => store.update((progress) => withRead(progress, step.path, read));
  if (!stateOf(store.progress, step.path).read) {
    return [button("Mark as read", mark(true)), " This step has no question to answer."];
  }
  return [doneMark(), "Marked as read. ", button("Undo", mark(false))];
}

/** Remember where in a step the reader is, after they have stayed there for a moment. */
export function rememberPlace(store: ProgressStore): void {
  let timer = 0;
  addEventListener("scroll", () => {
    clearTimeout(timer);
    timer = window.setTimeout(() => notePlace(store), PAUSE_MS);
  }, { passive: true });
}

export function notePlace(store: ProgressStore): void {
  const step = stepAt(pathOf(location.href));
  if (!step || document.hidden) return;
  const last = { path: step.path, at: placeNow() };
  store.update((progress) => {
    const same = progress.last?.path === last.path && progress.last.at === last.at;
    return same ? progress : withPlace(progress, last);
  });
}

function placeNow(): string {
  const passed = [...document.querySelectorAll(PLACES)].filter(
    (place) => place.getBoundingClientRect().top < TOP_PX,
  );
  return window.scrollY < 50 ? "" : (passed.at(-1)?.id ?? "");
}
