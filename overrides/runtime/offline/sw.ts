/**
 * The service worker: the runtime is kept for the next visit, visited pages for reading offline.
 *
 * Files of a build carry `?v=`, so they never change and are answered from what is kept; a new
 * build asks for other addresses, and what it replaces is dropped. Everything else comes from the
 * network as long as there is one, so a new deploy shows at once.
 */

const VERSIONED = "kv-versioned";
const VISITED = "kv-visited";
const OFFLINE =
  "<!doctype html><meta charset=utf-8><title>Offline</title><h1>You are offline</h1>" +
  "<p>This page was not read before on this device, so it is not kept here. Go back, or try again with a connection.</p>";

/** What this script uses of its global scope; the page's types have no service worker's. */
interface Scope {
  readonly registration: { readonly scope: string };
  readonly clients: { claim(): Promise<void> };
  skipWaiting(): Promise<void>;
  addEventListener<K extends keyof Events>(name: K, act: (event: Events[K]) => void): void;
}

interface Extendable extends Event {
  waitUntil(work: Promise<unknown>): void;
}

interface Fetched extends Extendable {
  readonly request: Request;
  respondWith(response: Promise<Response>): void;
}

interface Events {
  install: Extendable;
  activate: Extendable;
  message: Extendable & { readonly data: unknown };
  fetch: Fetched;
}

const worker = globalThis as unknown as Scope;

worker.addEventListener("install", () => void worker.skipWaiting());
worker.addEventListener("activate", (event) => event.waitUntil(worker.clients.claim()));

worker.addEventListener("message", (event) => {
  const keep = (event.data as { keep?: unknown } | null)?.keep;
  if (!Array.isArray(keep)) return;
  event.waitUntil(Promise.allSettled(keep.map((url) => keepFile(String(url)))));
});

worker.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET" || !request.url.startsWith(worker.registration.scope)) return;
  event.respondWith(isVersioned(request.url) ? keptFirst(event) : networkFirst(event));
});

function isVersioned(url: string): boolean {
  const { searchParams } = new URL(url);
  return searchParams.has("v") && !searchParams.has("again");
}

async function keptFirst(event: Fetched): Promise<Response> {
  const { request } = event;
  const cache = await caches.open(VERSIONED);
  const found = request.cache === "reload" ? undefined : await cache.match(request.url);
  if (found) return found;
  const response = await fetch(request);
  if (response.ok) event.waitUntil(replace(cache, request.url, response.clone()));
  return response;
}

/** Keep a file that the page has fetched before this worker was there; the browser still has it. */
async function keepFile(url: string): Promise<void> {
  if (!url.startsWith(worker.registration.scope) || !isVersioned(url)) return;
  const cache = await caches.open(VERSIONED);
  if (await cache.match(url)) return;
  const response = await fetch(url, { cache: "force-cache" });
  if (response.ok) await replace(cache, url, response);
}

/** Keep a file, and drop what an older build had in its place. */
async function replace(cache: Cache, url: string, response: Response): Promise<void> {
  await cache.put(url, response);
  for (const other of await cache.keys()) {
    if (other.url !== url && pathOf(other.url) === pathOf(url)) await cache.delete(other);
  }
}

function pathOf(url: string): string {
  return new URL(url).pathname;
}

async function networkFirst(event: Fetched): Promise<Response> {
  const { request } = event;
  try {
    const response = await fetch(request);
    if (response.ok && response.type === "basic") event.waitUntil(keepVisited(request.url, response.clone()));
    return response;
  } catch (error) {
    const found = await (await caches.open(VISITED)).match(request.url, { ignoreSearch: true });
    if (found) return found;
    if (request.mode !== "navigate") throw error;
    return new Response(OFFLINE, { status: 503, headers: { "content-type": "text/html; charset=utf-8" } });
  }
}

async function keepVisited(url: string, response: Response): Promise<void> {
  await (await caches.open(VISITED)).put(url, response);
}
