/** When to start Python: once the page is readable and a picture is near, or only when asked. */

import type { Runtime } from "./runtime";

const NEAR = "400px";
const BOOTING_FLAG = "kv:booting";

interface NetworkInformation {
  readonly saveData?: boolean;
}

declare global {
  interface Navigator {
    readonly connection?: NetworkInformation;
    readonly deviceMemory?: number;
  }
}

/** True when Python should wait to be asked: data is saved, the device is small, or it broke here before. */
export function waitsForTap(): boolean {
  return (
    navigator.connection?.saveData === true ||
    (navigator.deviceMemory ?? 8) <= 2 ||
    matchMedia("(prefers-reduced-data: reduce)").matches ||
    brokeHere()
  );
}

/** Starts the runtime when one of the watched elements comes near the reader. */
export class Intent {
  readonly #runtime: Runtime;
  readonly #near: IntersectionObserver;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
    this.#near = new IntersectionObserver((entries) => this.#seen(entries), { rootMargin: NEAR });
    rememberBoots(runtime);
  }

  watch(element: Element): void {
    if (this.#runtime.state === "idle" && !waitsForTap()) this.#near.observe(element);
  }

  unwatch(element: Element): void {
    this.#near.unobserve(element);
  }

  #seen(entries: IntersectionObserverEntry[]): void {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    this.#near.disconnect();
    void pageReadable().then(() => this.#runtime.start());
  }
}

/** Resolves after the page has loaded and the browser has nothing better to do. */
async function pageReadable(): Promise<void> {
  if (document.readyState !== "complete") {
    await new Promise((resolve) => addEventListener("load", resolve, { once: true }));
  }
  await new Promise<void>((resolve) => {
    if ("requestIdleCallback" in window) requestIdleCallback(() => resolve(), { timeout: 2000 });
    else setTimeout(resolve, 200);
  });
}

/** A tab that the browser killed while booting finds the flag, and does not try by itself again. */
function rememberBoots(runtime: Runtime): void {
  runtime.addEventListener("state", () => flag(runtime.state === "booting"));
  addEventListener("pagehide", () => flag(false));
}

function brokeHere(): boolean {
  try {
    return sessionStorage.getItem(BOOTING_FLAG) !== null;
  } catch {
    return false; // storage is blocked
  }
}

function flag(booting: boolean): void {
  try {
    if (booting) sessionStorage.setItem(BOOTING_FLAG, "1");
    else sessionStorage.removeItem(BOOTING_FLAG);
  } catch {
    // storage is blocked; only the memory of a broken start is lost
  }
}
