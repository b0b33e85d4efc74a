/** Links to steps in what Python draws: it knows a step's number, the site where its page is. */

import { STEPS } from "./progress/course";
import { SITE } from "./site";

const TO_STEP = /href="step:(\d+)"/g;

/** Give every link to a step its address; none where this page does not know the steps. */
export function withStepLinks(html: string): string {
  return html.replace(TO_STEP, (_, number: string) => {
    const step = STEPS.find((each) => each.step === Number(number));
    return step ? `href="${new URL(step.path, SITE).href}"` : "";
  });
}
