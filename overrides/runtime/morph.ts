/** Changing a widget's content in place: focus, the value in hand and open folds stay. */

import { Idiomorph } from "idiomorph";

import { keepDrawing } from "./chart-places";
import { fieldsOf, valueOf } from "./form";
import { lessMotion } from "./player";
import { withStepLinks } from "./step-links";

const MARKED_MS = 600;
/** What scripts draw themselves: the status line, a player's buttons, links and copies. */
const OURS = ".kv-status, [data-act], kv-link, kv-copy, kv-print";
const VALUE_ATTRIBUTES = new Set(["value", "checked", "selected"]);

/**
 * Morph a widget's content into new HTML.
 *
 * `sent` are the values the HTML was made from. A field that holds something else by now was
 * changed since, so the reader's value stays.
 */
export function morphContent(
  widget: HTMLElement,
  html: string,
  sent: ReadonlyMap<string, string | File>,
): void {
  const before = figuresOf(widget);
  const inHand = fieldsInHand(widget, sent);
  Idiomorph.morph(widget, withStepLinks(html), {
    morphStyle: "innerHTML",
    ignoreActiveValue: true,
    callbacks: {
      beforeNodeMorphed: (old, updated) =>
        !(old instanceof Element && old.matches(OURS)) && !keepDrawing(old, updated),
      beforeAttributeUpdated: (name, element) => {
        if (name === "disabled") return !(element instanceof HTMLFieldSetElement);
        if (name === "open") return !(element instanceof HTMLDetailsElement);
        return !(VALUE_ATTRIBUTES.has(name) && isIn(inHand, element));
      },
    },
  });
  markChanged(widget, before);
}

function fieldsInHand(
  widget: HTMLElement,
  sent: ReadonlyMap<string, string | File>,
): ReadonlySet<Element> {
  const form = widget.querySelector("form");
  const changed = form ? fieldsOf(form).filter((field) => valueOf(field) !== sentValue(field)) : [];
  return new Set(changed);

  function sentValue(field: { name: string }): string | File | undefined {
    return sent.get(field.name);
  }
}

function isIn(fields: ReadonlySet<Element>, element: Element): boolean {
  return fields.has(element) || fields.has(element.closest("select") ?? element);
}

function figuresOf(widget: HTMLElement): Map<string, string> {
  const figures = new Map<string, string>();
  for (const element of widget.querySelectorAll<HTMLElement>("[data-figure]")) {
    figures.set(element.dataset.figure ?? "", element.textContent ?? "");
  }
  return figures;
}

/** Mark what changed for a moment, unless it changes all the time or the reader asked for less motion. */
function markChanged(widget: HTMLElement, before: ReadonlyMap<string, string>): void {
  if (widget.hasAttribute("playing") || lessMotion()) return;
  for (const element of widget.querySelectorAll<HTMLElement>("[data-figure]")) {
    if (before.get(element.dataset.figure ?? "") === element.textContent) continue;
    element.classList.add("kv-changed");
    setTimeout(() => element.classList.remove("kv-changed"), MARKED_MS);
  }
}
