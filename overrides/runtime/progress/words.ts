/** How progress is put into words, the same everywhere. */

import type { Total } from "./state";

export const NOT_KEPT =
  "This browser does not let the page keep it (storage is full or turned off): it lasts while this page is open.";

export function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}

/** `3 of 21 steps done, about 58 minutes of reading left`. */
export function totalWords({ done, steps, minutesLeft }: Total): string {
  if (done === steps) return steps === 1 ? "Done" : `All ${steps} steps done`;
  const left = `about ${count(minutesLeft, "minute")} of reading`;
  return done === 0 ? `${count(steps, "step")}, ${left}, tasks extra` : `${done} of ${count(steps, "step")} done, ${left} left`;
}
