/** Making elements; a string is always text. */

type Child = Node | string;

export function make<K extends keyof HTMLElementTagNameMap>(
  name: K,
  className: string,
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

export function link(href: string | URL, ...children: Child[]): HTMLAnchorElement {
  const element = make("a", "", ...children);
  element.href = String(href);
  return element;
}

export function button(label: string, press: () => void, className = "kv-quiet-button"): HTMLButtonElement {
  const element = make("button", className, label);
  element.type = "button";
  element.addEventListener("click", press);
  return element;
}

/** A tick that is also said. */
export function doneMark(): HTMLElement {
  const sign = make("span", "", "✓");
  sign.setAttribute("aria-hidden", "true");
  return make("span", "kv-done", sign, make("span", "kv-hidden", " done"));
}

/** Change an element's content only when it would differ, so that focus and screen readers stay. */
export function fill(place: Element, key: string, make: () => Child[]): void {
  if (place instanceof HTMLElement && place.dataset.shown === key) return;
  const hadFocus = place.contains(document.activeElement);
  place.replaceChildren(...make());
  if (place instanceof HTMLElement) {
    place.dataset.shown = key;
    place.hidden = false;
  }
  if (hadFocus) place.querySelector<HTMLElement>("button, a")?.focus({ preventScroll: true });
}
