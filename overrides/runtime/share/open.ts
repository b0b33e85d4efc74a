/** Opening a link that carries a state: find its element, go there, hand it the state. */

import { make } from "../dom";
import { onEveryPage } from "../site";
import { LinkProblem, type Shared, isStateLink, sharedIn } from "./link";
import { type Shareable, isShareable, kindOf } from "./shareable";

const NOTE = "kv-link-note";
let opened = "";

export function openLinks(): void {
  onEveryPage(openOnce);
  addEventListener("hashchange", () => {
    opened = "";
    openOnce();
  });
}

/** A page that comes back by itself is not set again. */
function openOnce(): void {
  const { hash, href } = location;
  if (!isStateLink(hash)) opened = "";
  else if (href !== opened) {
    opened = href;
    void open(hash);
  }
}

async function open(hash: string): Promise<void> {
  document.querySelectorAll(`.${NOTE}`).forEach((note) => note.remove());
  let note: HTMLElement | undefined;
  try {
    const shared = await sharedIn(hash);
    const element = find(shared);
    note = noteBefore(element, "Opening what the link carries …");
    element.scrollIntoView({ block: "start" });
    await element.openState(shared.state);
    note.remove();
    element.scrollIntoView({ block: "start" });
    if (element.localName === "kv-cell") forget(element); // its text is kept now, and may go on from here
  } catch (error) {
    const words = error instanceof LinkProblem ? error.message : "This link could not be opened; the page stands as it was built.";
    if (!(error instanceof LinkProblem)) console.warn("kv: a link was not opened.", error);
    if (note?.isConnected) note.textContent = words;
    else noteBefore(document.querySelector(".md-content__inner")?.firstElementChild ?? null, words);
  }
}

/** By its id, or, where the page has changed, by its kind. */
function find({ id, of }: Shared): Shareable {
  const named = document.getElementById(id);
  if (isShareable(named) && kindOf(named) === of) return named;
  const [tag = ""] = of.split(" ");
  const alike = /^kv-[a-z]+$/.test(tag) && tag !== "kv-cell" ? [...document.querySelectorAll(tag)] : [];
  const found = alike.find((element): element is Shareable => isShareable(element) && kindOf(element) === of);
  if (found) return found;
  throw new LinkProblem("This link is for something that is no longer on this page; the page stands as it was built.");
}

function noteBefore(element: Element | null, words: string): HTMLElement {
  const note = make("p", NOTE);
  note.setAttribute("role", "status");
  if (element) element.before(note);
  else document.body.prepend(note);
  note.textContent = words; // after it stands in the page, so that it is said
  return note;
}

/** From here on the address names the element, and a reload brings no old text back. */
function forget(element: Element): void {
  history.replaceState(history.state, "", `#${element.id}`);
  opened = "";
}
