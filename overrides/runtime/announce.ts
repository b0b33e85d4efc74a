/** One polite live region for the whole site; several changes in a row are said once. */

const PAUSE_MS = 700;

let region: HTMLElement | undefined;
let timer = 0;
let said = 0;

/** Say a sentence to screen readers, at most one every PAUSE_MS, always the newest. */
export function announce(sentence: string): void {
  if (!sentence) return;
  clearTimeout(timer);
  const wait = Math.max(0, said + PAUSE_MS - performance.now());
  timer = window.setTimeout(() => {
    said = performance.now();
    liveRegion().textContent = sentence;
  }, wait);
}

function liveRegion(): HTMLElement {
  region ??= createRegion();
  if (!region.isConnected) document.body.append(region);
  return region;
}

function createRegion(): HTMLElement {
  const element = document.createElement("div");
  element.id = "kv-announce";
  element.setAttribute("role", "status");
  Object.assign(element.style, {
    position: "absolute",
    inlineSize: "1px",
    blockSize: "1px",
    overflow: "hidden",
    clipPath: "inset(50%)",
    whiteSpace: "nowrap",
  });
  return element;
}
