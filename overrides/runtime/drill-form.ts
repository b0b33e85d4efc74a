/** A drill's answer: read from its controls, kept in the reader's browser, put back. */

import { valueOf } from "./form";

/** The box an answer is typed into, where there is one. */
export function textField(form: HTMLFormElement): HTMLInputElement | HTMLTextAreaElement | null {
  return form.querySelector<HTMLInputElement | HTMLTextAreaElement>("[data-answer=text]");
}

/** The answer as Python's kind of drill reads it; null when what it is about is missing. */
export function answerOf(form: HTMLFormElement): unknown {
  const place = form.querySelector<HTMLElement>("[data-answer]");
  switch (place?.dataset.answer) {
    case "choice":
      return place.querySelector<HTMLInputElement>("input:checked")?.value ?? "";
    case "order":
      return itemsOf(place).map((item) => item.dataset.value);
    case "state":
      return stateOf(place.dataset.watch ?? "");
    default:
      return textField(form)?.value ?? "";
  }
}

/** The values of a picture's controls, as its own runtime would send them. */
function stateOf(id: string): Record<string, string> | null {
  const form = document.getElementById(id)?.querySelector("form");
  if (!form) return null;
  const state: Record<string, string> = {};
  for (const field of form.elements) {
    if (!isField(field) || field.name === "") continue;
    const value = valueOf(field);
    if (typeof value === "string") state[field.name] = value;
  }
  return state;
}

function isField(
  element: Element,
): element is HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement {
  return element.matches("input, select, textarea");
}

/** Show a slider's value beside it. */
export function showSlider(input: HTMLInputElement): void {
  if (input.type !== "range") return;
  const text = `${Number(input.value).toLocaleString("en")} ${input.dataset.unit ?? ""}`.trim();
  input.setAttribute("aria-valuetext", text);
  const output = input.form?.querySelector("output");
  if (output) output.textContent = text;
}

/** Move a list item as its button says; returns what to tell, or "" when it cannot move. */
export function move(button: HTMLElement): string {
  const item = button.closest<HTMLElement>("[data-value]");
  const list = item?.parentElement;
  if (!item || !list || button.getAttribute("aria-disabled") === "true") return "";
  if (button.dataset.move === "up") item.previousElementSibling?.before(item);
  else item.nextElementSibling?.after(item);
  markEnds(list);
  button.focus(); // moving an element takes the focus from it
  const items = itemsOf(list);
  const name = item.querySelector(".kv-option-text")?.textContent ?? "";
  return `${name} is now ${items.indexOf(item) + 1} of ${items.length}.`;
}

function itemsOf(list: Element): HTMLElement[] {
  return [...list.querySelectorAll<HTMLElement>(":scope > [data-value]")];
}

/** The first cannot go up, nor the last down; the buttons stay, so that focus does. */
function markEnds(list: Element): void {
  const items = itemsOf(list);
  for (const [place, item] of items.entries()) {
    for (const button of item.querySelectorAll<HTMLElement>("[data-move]")) {
      const end = button.dataset.move === "up" ? 0 : items.length - 1;
      button.setAttribute("aria-disabled", String(place === end));
    }
  }
}

/** Keep an answer under its drill and its question: a changed question never shows it. */
export function keepAnswer(drill: string, form: HTMLFormElement): void {
  if (form.querySelector("[data-watch]")) return; // the picture keeps its own state
  try {
    localStorage.setItem(storageKey(drill, form), JSON.stringify(answerOf(form)));
  } catch {
    // storage is full or forbidden; the answer is kept as long as the page is open
  }
}

/** Put a kept answer back. */
export function restoreAnswer(drill: string, form: HTMLFormElement): void {
  const kept = keptAnswer(drill, form);
  const list = form.querySelector<HTMLElement>("[data-answer=order]");
  const field = textField(form);
  if (list && Array.isArray(kept)) reorder(list, kept);
  else if (field && typeof kept === "string") field.value = kept;
  else if (typeof kept === "string") {
    for (const radio of form.querySelectorAll<HTMLInputElement>("input[type=radio]")) {
      radio.checked = radio.value === kept;
    }
  }
  if (field instanceof HTMLInputElement) showSlider(field);
}

function keptAnswer(drill: string, form: HTMLFormElement): unknown {
  try {
    return JSON.parse(localStorage.getItem(storageKey(drill, form)) ?? "null") as unknown;
  } catch {
    return null; // storage is forbidden, or what is there is not ours
  }
}

function storageKey(drill: string, form: HTMLFormElement): string {
  return `kv:drill:${drill}:${form.dataset.key ?? ""}`;
}

function reorder(list: HTMLElement, values: readonly unknown[]): void {
  const items = new Map(itemsOf(list).map((item) => [item.dataset.value, item]));
  if (values.length !== items.size || new Set(values).size !== items.size) return;
  const ordered = values.map((value) => items.get(String(value)));
  if (ordered.every((item) => item !== undefined)) list.append(...(ordered as HTMLElement[]));
  markEnds(list);
}
