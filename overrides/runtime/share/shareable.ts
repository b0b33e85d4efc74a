/** What an element offers so that links can carry its state. */

import { waitsForTap } from "../intent";
import type { Runtime } from "../runtime";

export interface Shareable extends HTMLElement {
  /** The state as plain JSON. */
  sharedState(): unknown;
  /**
   * Show a state that a link carried, whatever it is: links are written by anyone.
   *
   * Throws a `LinkProblem` when it cannot be shown; what stood there then stays.
   */
  openState(state: unknown): Promise<void>;
}

export function isShareable(element: Element | null): element is Shareable {
  return element instanceof HTMLElement && "sharedState" in element && "openState" in element;
}

/**
 * What an element is, as links name it: `kv-widget gpu-memory`. A block of code has no name; its key
 * changes with the lesson's code, so that a link never puts old code into another block.
 */
export function kindOf(element: HTMLElement): string {
  return [element.localName, element.getAttribute("name") ?? element.dataset.key ?? ""].join(" ").trim();
}

/** The nearest element around a control whose state can be shared. */
export function shareableAround(element: Element): Shareable | undefined {
  for (let at = element.parentElement; at; at = at.parentElement) {
    if (isShareable(at)) return at;
  }
  return undefined;
}

/** Resolves when Python is up, true, or did not start, false; starts it unless the reader must ask for it. */
export async function pythonUp(runtime: Runtime): Promise<boolean> {
  if (runtime.state === "idle" && !waitsForTap()) void runtime.start();
  while (runtime.state !== "live" && runtime.state !== "failed") {
    await new Promise((resolve) => runtime.addEventListener("state", resolve, { once: true }));
  }
  return runtime.state === "live";
}
