/** The lesson's steps, as the build wrote them into every page. */

export interface Step {
  /** Address below the site's root. */
  readonly path: string;
  readonly step: number;
  readonly part: number;
  readonly title: string;
  readonly minutes: number;
  /** Names of the drills that stand on its page. */
  readonly drills: readonly string[];
}

/** All steps in the order of the lesson; none where the page does not carry them. */
export const STEPS: readonly Step[] = read();

export function stepAt(path: string): Step | undefined {
  return STEPS.find((step) => step.path === path);
}

function read(): Step[] {
  const text = document.getElementById("kv-course")?.textContent;
  return text ? (JSON.parse(text) as Step[]) : [];
}
