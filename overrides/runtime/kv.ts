/** Loaded on every page, evaluated once a visit. */

import { Intent, waitsForTap } from "./intent";
import { defineCell } from "./kv-cell";
import { defineDrill } from "./kv-drill";
import { defineTerminal } from "./kv-terminal";
import { defineWidget } from "./kv-widget";
import { loadPlaygroundWhereItStands } from "./playground-loader";
import { keepForOffline } from "./offline/register";
import { followProgress } from "./progress/index";
import { Runtime } from "./runtime";
import { defineShareControls } from "./share/controls";
import { openLinks } from "./share/open";

/** Once live, the rest of the standard library follows, unless data is to be saved. */
function completeLibraryWhenLive(runtime: Runtime): void {
  runtime.addEventListener("state", () => {
    if (runtime.state !== "live" || waitsForTap()) return;
    runtime.completeLibrary().catch((error: unknown) => {
      console.warn("kv: the rest of the standard library did not come.", error);
    });
  });
}

if (!customElements.get("kv-widget")) {
  const runtime = new Runtime();
  const intent = new Intent(runtime);
  defineWidget(runtime, intent);
  defineDrill(runtime);
  defineTerminal(runtime);
  defineCell();
  loadPlaygroundWhereItStands(runtime, intent);
  defineShareControls();
  completeLibraryWhenLive(runtime);
  keepForOffline(runtime);
  followProgress();
  openLinks();
  Object.assign(globalThis, { kvRuntime: runtime });
}
