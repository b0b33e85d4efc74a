/** Done marks in the navigation and on the landing page, and the way back to where the reader was. */

import { SITE, pathOf } from "../site";
import { STEPS, type Step, stepAt } from "./course";
import { doneMark, fill, make } from "../dom";
import { type Progress, isDone, nextStep, totalOf } from "./state";
import { totalWords } from "./words";

export function showNavigation(progress: Progress): void {
  for (const link of document.querySelectorAll<HTMLAnchorElement>(".md-nav--primary a.md-nav__link[href]")) {
    mark(link, link, progress);
  }
  for (const section of document.querySelectorAll(".md-nav--primary .md-nav__item--section")) {
    showPart(section, progress);
  }
}

function showPart(section: Element, progress: Progress): void {
  const label = section.querySelector(":scope > .md-nav__link");
  const links = [...section.querySelectorAll<HTMLAnchorElement>("a.md-nav__link[href]")];
  const paths = new Set(links.map((one) => pathOf(one.href)));
  const steps = STEPS.filter((step) => paths.has(step.path));
  const { done } = totalOf(progress, steps);
  const old = label?.querySelector(".kv-part-count");
  if (!label || steps.length === 0 || done === 0) return void old?.remove();
  const place = old ?? make("span", "kv-part-count");
  place.textContent = `${done} of ${steps.length} done`;
  if (!old) label.append(place);
}

export function showLanding(progress: Progress): void {
  for (const link of document.querySelectorAll<HTMLAnchorElement>(".kv-steps a")) {
    mark(link, link.querySelector("b") ?? link, progress);
  }
  const total = totalOf(progress, STEPS);
  for (const place of document.querySelectorAll("[data-kv-progress=whole]")) {
    fill(place, totalWords(total), () => [totalWords(total)]);
  }
  const start = document.querySelector<HTMLAnchorElement>(".kv-start-button");
  if (start) showStart(start, progress, total.done > 0 || progress.last !== undefined);
}

/** The start button leads on; untouched as long as nothing was read. */
function showStart(start: HTMLAnchorElement, progress: Progress, begun: boolean): void {
  const built = (start.dataset.built ??= JSON.stringify([start.textContent, start.href]));
  const [words, href] = JSON.parse(built) as [string, string];
  const step = nextStep(progress, STEPS);
  const onward = begun && step ? step : undefined;
  start.textContent = onward ? `Resume: step ${onward.step}, ${onward.title}` : words;
  start.href = onward ? resumeAddress(onward, progress) : href;
  if (begun && !step && STEPS.length > 0) {
    start.textContent = "See what you have learned";
    start.href = new URL("completion/", SITE).href;
  }
}

function resumeAddress(step: Step, { last }: Progress): string {
  const address = new URL(step.path, SITE);
  if (last?.path === step.path && last.at) address.hash = last.at;
  return address.href;
}

/** Put a tick beside a link to a step that is done. */
function mark(link: HTMLAnchorElement, place: Element, progress: Progress): void {
  const step = stepAt(pathOf(link.href));
  const old = place.querySelector(".kv-done");
  if (step && isDone(progress, step)) {
    if (!old) place.append(doneMark());
  } else old?.remove();
}
