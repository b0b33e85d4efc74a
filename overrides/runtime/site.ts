/** Where this site begins, and the path of a page below it. */

import { BASE } from "./build-info";

/** The site's root, wherever it is served from. */
export const SITE = new URL("../../", BASE);

interface PageChanges {
  subscribe(changed: () => void): unknown;
}

declare global {
  interface Window {
    /** Material's: tells of the first page and of every one after it. */
    readonly document$?: PageChanges;
  }
}

/** Do something now and after every instant page change. */
export function onEveryPage(act: () => void): void {
  if (window.document$) window.document$.subscribe(act);
  else act();
}

/** The path of an address below the site's root, without its fragment. */
export function pathOf(address: string | URL): string {
  const { origin, pathname } = new URL(address, location.href);
  const isOurs = origin === SITE.origin && pathname.startsWith(SITE.pathname);
  return isOurs ? pathname.slice(SITE.pathname.length).replace(/index\.html$/, "") : "";
}
