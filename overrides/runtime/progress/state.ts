/** What a reader has done, and what follows from it. Plain values: nothing here touches the page. */

import { isRecord } from "../values";
import type { Step } from "./course";

export interface StepState {
  /** Names of the drills that were answered. */
  readonly answered: readonly string[];
  /** Marked as read, on a page without drills. */
  readonly read: boolean;
}

export interface Place {
  readonly path: string;
  /** Id of the heading, picture or question the reader was at; "" for the page's beginning. */
  readonly at: string;
}

export interface Progress {
  readonly steps: Readonly<Record<string, StepState>>;
  readonly last?: Place;
}

export interface Total {
  readonly done: number;
  readonly steps: number;
  readonly minutesLeft: number;
}

export const NOTHING: Progress = { steps: {} };
const UNTOUCHED: StepState = { answered: [], read: false };

export function stateOf(progress: Progress, path: string): StepState {
  return Object.hasOwn(progress.steps, path) ? (progress.steps[path] ?? UNTOUCHED) : UNTOUCHED;
}

/** How many of a step's drills are answered. */
export function answeredOf(progress: Progress, step: Step): number {
  const { answered } = stateOf(progress, step.path);
  return step.drills.filter((name) => answered.includes(name)).length;
}

export function isDone(progress: Progress, step: Step): boolean {
  if (step.drills.length === 0) return stateOf(progress, step.path).read;
  return answeredOf(progress, step) === step.drills.length;
}

export function totalOf(progress: Progress, steps: readonly Step[]): Total {
  const left = steps.filter((step) => !isDone(progress, step));
  return {
    done: steps.length - left.length,
    steps: steps.length,
    minutesLeft: left.reduce((sum, step) => sum + step.minutes, 0),
  };
}

/** Where to go on: where the reader was, or the first step after it that is not done. */
export function nextStep(progress: Progress, steps: readonly Step[]): Step | undefined {
  const at = steps.findIndex((step) => step.path === progress.last?.path);
  const ahead = [...steps.slice(Math.max(0, at)), ...steps.slice(0, Math.max(0, at))];
  return ahead.find((step) => !isDone(progress, step));
}

export function withAnswer(progress: Progress, path: string, drill: string): Progress {
  const state = stateOf(progress, path);
  if (state.answered.includes(drill)) return progress;
  return withState(progress, path, { ...state, answered: [...state.answered, drill] });
}

export function withRead(progress: Progress, path: string, read: boolean): Progress {
  const state = stateOf(progress, path);
  if (read || state.answered.length > 0) return withState(progress, path, { ...state, read });
  const { [path]: _, ...steps } = progress.steps; // less to keep, which a full storage takes
  return { ...progress, steps };
}

export function withPlace(progress: Progress, last: Place): Progress {
  return { ...progress, last };
}

/** Everything that was done in either; where both know a place, the first one's. */
export function merged(mine: Progress, other: Progress): Progress {
  const last = mine.last ?? other.last;
  let steps = mine;
  for (const [path, { answered, read }] of Object.entries(other.steps)) {
    for (const drill of answered) steps = withAnswer(steps, path, drill);
    if (read) steps = withRead(steps, path, true);
  }
  return { steps: steps.steps, ...(last && { last }) };
}

/** Read what storage or a file holds, which may be damaged or not ours. */
export function progressFrom(value: unknown): Progress | undefined {
  if (!isRecord(value) || !isRecord(value.steps)) return undefined;
  const steps: Record<string, StepState> = {};
  for (const [path, state] of Object.entries(value.steps)) {
    if (!isRecord(state) || !Array.isArray(state.answered)) return undefined;
    const answered = state.answered.filter((name): name is string => typeof name === "string");
    if (path === "__proto__") continue;
    steps[path] = { answered, read: state.read === true };
  }
  const last = isRecord(value.last) ? value.last : {};
  if (typeof last.path !== "string" || typeof last.at !== "string") return { steps };
  return { steps, last: { path: last.path, at: last.at } };
}

function withState(progress: Progress, path: string, state: StepState): Progress {
  return { ...progress, steps: { ...progress.steps, [path]: state } };
}
