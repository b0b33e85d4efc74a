/**
 * Draws a chart's Vega-Lite specification into its place. A file of its own, fetched when the first
 * chart changes: Vega is larger than everything else on the page.
 *
 * No expression is compiled (`ast`, the interpreter), so the page needs no `unsafe-eval`, and a
 * specification can fetch nothing. Colours are the style sheet's variables: a switch of scheme needs
 * no new drawing.
 */

import embed, { type VisualizationSpec } from "vega-embed";
import { expressionInterpreter } from "vega-interpreter";

interface Drawing {
  readonly view: Awaited<ReturnType<typeof embed>>["view"];
  readonly finalize: () => void;
}

const drawings = new WeakMap<Element, Drawing>();

const fitted = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const view = drawings.get(target)?.view;
    if (view && target.clientWidth && view.width() !== target.clientWidth) {
      view.width(target.clientWidth).runAsync();
    }
  }
});

const nothing = {
  load: () => Promise.reject(new Error("a chart fetches nothing")),
  sanitize: () => Promise.reject(new Error("a chart links nowhere")),
};

/** Draw a specification into its place, whatever stood there. */
export async function drawInto(place: HTMLElement, spec: VisualizationSpec): Promise<void> {
  const stage = document.createElement("div");
  const drawing = await embed(
    stage,
    { ...spec, width: place.clientWidth || 600 } as VisualizationSpec,
    {
      actions: false,
      ast: true,
      defaultStyle: false,
      expr: expressionInterpreter,
      loader: nothing as never,
      mode: "vega-lite",
      renderer: "svg",
      tooltip: false,
    },
  );
  drawings.get(place)?.finalize();
  drawings.set(place, drawing);
  const picture = stage.querySelector("svg"); // without the empty form that Vega puts beside it
  if (!picture) throw new Error("Vega drew no picture");
  picture.setAttribute("aria-hidden", "true"); // its place is the image, and has the words
  place.replaceChildren(picture);
  fitted.observe(place);
}
