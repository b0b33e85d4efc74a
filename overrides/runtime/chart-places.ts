/** The places of charts: what is drawn in them stays through a morph, and follows what Python sent. */

import { asset } from "./build-info";

type Charts = typeof import("./charts");

const PLACE = ".kv-chart";
/** The specification that is drawn in a place. */
const shown = new WeakMap<Element, string>();
const drawing = new WeakSet<Element>();
let charts: Promise<Charts> | undefined;
let failures = 0;

/** Take over a place's new specification and words without touching what is drawn; true if both are places. */
export function keepDrawing(old: Node, updated: Node): boolean {
  if (!isPlace(old) || !isPlace(updated)) return false;
  if (!shown.has(old) && old.firstElementChild) shown.set(old, old.dataset.spec ?? "");
  for (const { name, value } of updated.attributes) old.setAttribute(name, value);
  return true;
}

/** Redraw the charts of a widget whose specification changed. */
export async function redraw(widget: Element): Promise<void> {
  await Promise.all([...widget.querySelectorAll<HTMLElement>(PLACE)].map(follow));
}

/** Fetch what draws charts, ahead of the answer that needs it. */
export function prepareCharts(widget: Element): void {
  if (widget.querySelector(PLACE)) load().catch(() => {});
}

async function follow(place: HTMLElement): Promise<void> {
  if (drawing.has(place)) return;
  drawing.add(place);
  try {
    for (let spec = place.dataset.spec; spec && spec !== shown.get(place); spec = place.dataset.spec) {
      await (await load()).drawInto(place, JSON.parse(spec));
      shown.set(place, spec);
    }
  } catch (error) {
    console.warn("kv: a chart was not drawn.", error);
    shown.delete(place);
    const line = document.createElement("p");
    line.textContent = "This chart could not be drawn. Its values stand in the data table below.";
    place.replaceChildren(line);
  } finally {
    drawing.delete(place);
  }
}

async function load(): Promise<Charts> {
  charts ??= import(asset("charts.js", failures).href) as Promise<Charts>;
  try {
    return await charts;
  } catch (error) {
    charts = undefined;
    failures += 1; // the same address would fail again without a request
    throw error;
  }
}

function isPlace(node: Node): node is HTMLElement {
  return node instanceof HTMLElement && node.matches(PLACE);
}
