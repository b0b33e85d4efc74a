/** The small controls beside an element: copy its link, the line that embeds it, or a text. */

import { announce } from "../announce";
import { copyText } from "../copy";
import { button, make } from "../dom";
import { SITE, onEveryPage } from "../site";
import { LinkProblem, linkTo } from "./link";
import { type Shareable, kindOf, shareableAround } from "./shareable";

const SAID_MS = 2500;

/** `<kv-link>`: a link to the state of the element it stands in. */
class KvLink extends HTMLElement {
  connectedCallback(): void {
    const element = shareableAround(this);
    if (!element) return; // it has no state that a link could carry
    const buttons = [button("Link", () => void this.#give(() => address(element), "Link"), "kv-small-button")];
    if (element.localName === "kv-widget") {
      buttons.push(button("Embed", () => void this.#give(() => embedding(element), "Line for your page"), "kv-small-button"));
    }
    this.replaceChildren(...buttons);
  }

  async #give(text: () => Promise<string>, label: string): Promise<void> {
    this.querySelector(".kv-link-given")?.remove();
    try {
      const given = await text();
      const copied = await copyText(given);
      this.append(copied ? said(`${label} copied.`) : field(label, given));
    } catch (error) {
      if (!(error instanceof LinkProblem)) throw error;
      this.append(said(error.message));
    }
    this.querySelector("input")?.select();
  }
}

/** `<kv-copy>`: copies the code that stands beside it. */
class KvCopy extends HTMLElement {
  connectedCallback(): void {
    const copy = button("Copy", () => void this.#copy(copy), "kv-copy-button");
    copy.setAttribute("aria-label", "Copy the code");
    this.replaceChildren(copy);
  }

  async #copy(pressed: HTMLElement): Promise<void> {
    const code = this.parentElement?.querySelector("pre code, pre");
    const copied = await copyText(code?.textContent ?? "");
    const words = copied ? "Copied" : "This browser does not copy";
    pressed.textContent = words;
    announce(words);
    setTimeout(() => (pressed.textContent = "Copy"), SAID_MS);
  }
}

/** `<kv-print>`: prints the page; on a page with a sheet that is the sheet. */
class KvPrint extends HTMLElement {
  connectedCallback(): void {
    this.replaceChildren(button("Print this sheet", () => window.print(), "kv-button"));
  }
}

export function defineShareControls(): void {
  customElements.define("kv-print", KvPrint);
  customElements.define("kv-link", KvLink);
  customElements.define("kv-copy", KvCopy);
  onEveryPage(addControls);
}

/** Code blocks and cells are made by others; their controls are added here. */
function addControls(): void {
  for (const block of document.querySelectorAll(".md-content div.highlight")) {
    const hasOwn = block.closest("kv-cell, kv-drill, kv-widget, .result") ?? block.querySelector("kv-copy");
    if (!hasOwn) block.append(document.createElement("kv-copy"));
  }
  for (const bar of document.querySelectorAll(".kv-cell-bar")) {
    if (!bar.querySelector("kv-link")) bar.querySelector(".kv-cell-status")?.before(document.createElement("kv-link"));
  }
}

async function address(element: Shareable, page: string | URL = location.href): Promise<string> {
  return await linkTo(page, { id: element.id, of: kindOf(element), state: await element.sharedState() });
}

/** One line of HTML that shows the picture, as it is now, in another site's page. */
async function embedding(element: Shareable): Promise<string> {
  const page = new URL(`embed/${element.getAttribute("name")}/`, SITE);
  const source = await address(element, page);
  const title = element.querySelector(".kv-title")?.textContent ?? "";
  const frame = document.createElement("iframe"); // its markup is escaped by the browser
  frame.src = source;
  frame.title = title;
  frame.width = "100%";
  frame.height = String(Math.ceil(element.offsetHeight / 20) * 20 + 80);
  frame.loading = "lazy";
  return frame.outerHTML;
}

function said(words: string): HTMLElement {
  const line = make("span", "kv-link-given", words);
  announce(words);
  return line;
}

function field(label: string, text: string): HTMLElement {
  const input = make("input", "");
  input.type = "text";
  input.readOnly = true;
  input.value = text;
  return make("label", "kv-link-given", `${label}: `, input);
}
