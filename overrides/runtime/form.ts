/** A widget's form: its values as text, and the messages beside its controls. */

import type { Params } from "./messages";

type Field = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

const LARGEST_FILE = 16 * 2 ** 20;

/** A file the reader chose that is too large to hand on. */
export class FileTooLarge extends Error {
  override readonly name = "FileTooLarge";

  constructor(readonly control: string, file: File) {
    super(`${file.name} is ${(file.size / 2 ** 20).toFixed(1)} MiB; at most 16 MiB are read.`);
  }
}

export function fieldsOf(form: HTMLFormElement): Field[] {
  return [...form.elements].filter(
    (element): element is Field =>
      (element instanceof HTMLInputElement ||
        element instanceof HTMLSelectElement ||
        element instanceof HTMLTextAreaElement) &&
      element.name !== "",
  );
}

/** What a field holds now, as it is sent: a box is "true" or "false", a radio that is off is nothing. */
export function valueOf(field: Field): string | File | undefined {
  if (!(field instanceof HTMLInputElement)) return field.value;
  if (field.type === "checkbox") return String(field.checked);
  if (field.type === "radio") return field.checked ? field.value : undefined;
  if (field.type === "file") return field.files?.[0] ?? "";
  return stepsOf(field)?.[Number(field.value)] ?? field.value;
}

/** The numbers a slider stands for, where its positions are not the numbers themselves. */
function stepsOf(field: HTMLInputElement): string[] | undefined {
  return field.dataset.steps?.split(" ");
}

/** The form's values now; files are still to be read. */
export function valuesOf(form: HTMLFormElement): ReadonlyMap<string, string | File> {
  const values = new Map<string, string | File>();
  for (const field of fieldsOf(form)) {
    const value = valueOf(field);
    if (value !== undefined) values.set(field.name, value);
  }
  return values;
}

/** The same with each file read as text. */
export async function asParams(values: ReadonlyMap<string, string | File>): Promise<Params> {
  const params: Record<string, string> = {};
  for (const [name, value] of values) {
    if (value instanceof File && value.size > LARGEST_FILE) throw new FileTooLarge(name, value);
    params[name] = value instanceof File ? await value.text() : value;
  }
  return params;
}

/** Set the fields to these values. */
export function setValues(form: HTMLFormElement, params: Params): void {
  for (const field of fieldsOf(form)) {
    const value = params[field.name];
    if (value === undefined) continue;
    if (!(field instanceof HTMLInputElement)) field.value = value;
    else if (field.type === "checkbox") field.checked = value === "true";
    else if (field.type === "radio") field.checked = field.value === value;
    else if (field.type === "file") field.value = "";
    else field.value = String(stepsOf(field)?.indexOf(value) ?? value);
  }
}

/**
 * Give the sliders that start anew on each visit a number: the address's (`?seed=4`) or, where it may be
 * drawn, any. Says whether one has changed.
 */
export function startAnew(form: HTMLFormElement, mayDraw: boolean): boolean {
  const sliders = form.querySelectorAll<HTMLInputElement>("input[data-fresh]");
  const given = new URLSearchParams(location.search);
  let changed = false;
  for (const slider of sliders) {
    const value = given.get(slider.name) ?? (mayDraw ? drawn(slider) : undefined);
    if (value === undefined) continue;
    slider.value = value;
    changed = true;
  }
  return changed;
}

function drawn(slider: HTMLInputElement): string {
  const [least, most] = [Number(slider.min), Number(slider.max)];
  return String(least + Math.floor(Math.random() * (most - least + 1)));
}

/** Show each message at its control and clear the others; `*` is for the form as a whole. */
export function showErrors(form: HTMLFormElement, errors: Readonly<Record<string, string>>): void {
  for (const place of form.querySelectorAll<HTMLElement>("[data-error-for]")) {
    const name = place.dataset.errorFor ?? "";
    const message = errors[name] ?? "";
    place.textContent = message;
    place.hidden = message === "";
    place.id ||= `${form.closest("kv-widget")?.id ?? "kv"}-error-${name === "*" ? "form" : name}`;
    for (const field of fieldsOf(form)) {
      if (field.name === name) mark(field, place.id, message !== "");
    }
  }
}

function mark(field: Field, errorId: string, wrong: boolean): void {
  const described = new Set((field.getAttribute("aria-describedby") ?? "").split(" ").filter(Boolean));
  if (wrong) described.add(errorId);
  else described.delete(errorId);
  setOrRemove(field, "aria-invalid", wrong ? "true" : "");
  setOrRemove(field, "aria-describedby", [...described].join(" "));
}

function setOrRemove(element: Element, name: string, value: string): void {
  if (value) element.setAttribute(name, value);
  else element.removeAttribute(name);
}
