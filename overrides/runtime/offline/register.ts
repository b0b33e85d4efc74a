/** Asks for the service worker, once Python has been of use and the page is quiet. */

import { BASE, BUILD, asset } from "../build-info";
import { waitsForTap } from "../intent";
import type { Runtime } from "../runtime";

/** Where the site begins: these scripts lie in `assets/kv/` below it. */
const ROOT = new URL("../../", BASE);

/** Keep the runtime for the next visit and for offline reading, unless data is to be saved. */
export function keepForOffline(runtime: Runtime): void {
  if (!("serviceWorker" in navigator)) return;
  const register = (): void => {
    if (runtime.state !== "live" || waitsForTap()) return;
    runtime.removeEventListener("state", register);
    quiet(() => void registerNow());
  };
  runtime.addEventListener("state", register);
}

async function registerNow(): Promise<void> {
  try {
    await navigator.serviceWorker.register(new URL("sw.js", ROOT), { scope: ROOT.pathname });
    const { active } = await navigator.serviceWorker.ready;
    const files = ["worker.js", ...Object.keys(BUILD.files)];
    active?.postMessage({ keep: files.map((name) => asset(name).href) });
  } catch (error) {
    console.info("kv: nothing is kept for offline reading.", error);
  }
}

function quiet(act: () => void): void {
  if ("requestIdleCallback" in globalThis) requestIdleCallback(act, { timeout: 10_000 });
  else setTimeout(act, 3_000);
}
