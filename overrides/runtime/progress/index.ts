/** Progress: noted as drills are done and pages are read, shown wherever a page has a place for it. */

import { onEveryPage, pathOf } from "../site";
import { showCompletion } from "./completion";
import { stepAt } from "./course";
import { showLanding, showNavigation } from "./lists";
import { withAnswer } from "./state";
import { notePlace, rememberPlace, showStep } from "./step-page";
import { ProgressStore } from "./store";

export function followProgress(): void {
  const store = new ProgressStore();
  const show = (): void => {
    showStep(store);
    showNavigation(store.progress);
    showLanding(store.progress);
    showCompletion(store);
  };
  store.addEventListener("change", show);
  addEventListener("kv-drill-done", (event) => noteAnswer(store, event));
  rememberPlace(store);
  onEveryPage(() => {
    notePlace(store);
    show();
  });
}

function noteAnswer(store: ProgressStore, event: Event): void {
  const step = stepAt(pathOf(location.href));
  const drill: unknown = event instanceof CustomEvent ? event.detail?.drill : undefined;
  if (!step || typeof drill !== "string" || !step.drills.includes(drill)) return;
  store.update((progress) => withAnswer(progress, step.path, drill));
}
