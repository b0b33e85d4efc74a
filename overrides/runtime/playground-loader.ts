/** Fetches the playground's own bundle where a `<kv-playground>` stands, and hands it what it shares. */

import { announce } from "./announce";
import { asset } from "./build-info";
import { Interrupted } from "./connection";
import { setValues, showErrors, valuesOf } from "./form";
import type { Intent } from "./intent";
import { morphContent } from "./morph";
import { Player } from "./player";
import type { Runtime } from "./runtime";
import { LinkProblem, textsIn } from "./share/link";
import { pythonUp } from "./share/shareable";
import { onEveryPage } from "./site";
import { showStatus } from "./status";
import type * as Playground from "./kv-playground";

/** Parts of the main bundle: two bundles with copies of them would not know each other's. */
const SHARED = {
  announce,
  Interrupted,
  LinkProblem,
  morphContent,
  Player,
  pythonUp,
  setValues,
  showErrors,
  showStatus,
  textsIn,
  valuesOf,
};

export type Tools = typeof SHARED & { readonly runtime: Runtime; readonly intent: Intent };

export function loadPlaygroundWhereItStands(runtime: Runtime, intent: Intent): void {
  let failures = 0;
  onEveryPage(() => {
    if (!document.querySelector("kv-playground") || customElements.get("kv-playground")) return;
    (import(asset("playground.js", failures).href) as Promise<typeof Playground>)
      .then(({ define }) => define({ ...SHARED, runtime, intent }))
      .catch((error: unknown) => {
        failures += 1;
        console.warn("kv: the playground's script did not come; it stays as it was built.", error);
      });
  });
}
