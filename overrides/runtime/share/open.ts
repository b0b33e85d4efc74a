/** Opening a link that carries a state: find its element, go there, hand it the state. */

import { make } from "../dom";
import { onEveryPage } from "../site";
import { LinkProblem, type Shared, isStateLink, sharedIn } from "./link";
import { type Shareable, isShareable, kindOf } from "./shareable";

const NOTE = "kv-link-note";
const LONGEST_WAIT_MS = 20_000;
/** The link that was opened last, and where; a page may be drawn anew while its address stays. */
let opened: { readonly href: string; readonly where: Element } | undefined;

export function openLinks(): void {
  onEveryPage(follow);
  addEventListener("hashchange", follow);
}

function follow(): void {
  const { hash, href } = location;
  if (!isStateLink(hash)) opened = undefined;
  else if (opened?.href !== href || !opened.where.isConnected) void open(hash, href);
}

async function open(hash: string, href: string): Promise<void> {
  for (const note of document.querySelectorAll(`.${NOTE}`)) note.remove();
  const note = make("p", NOTE);
  note.setAttribute("role", "status");
  opened = { href, where: note };
  try {
    const shared = await sharedIn(hash);
    await definition(shared);
    const element = find(shared);
    opened = { href, where: element };
    openFolds(element);
    element.before(note);
    note.textContent = "Opening what the link carries …"; // after it stands in the page, so that it is said
    element.scrollIntoView({ block: "start" });
    await element.openState(shared.state);
    note.remove();
    element.scrollIntoView({ block: "start" });
    if (element.localName === "kv-cell") forget(element); // its text is kept now, and may go on from here
  } catch (error) {
    const isOurs = error instanceof LinkProblem;
    if (!isOurs) console.warn("kv: a link was not opened.", error);
    if (!note.isConnected) firstOfContent().before(note);
    note.textContent = isOurs ? error.message : "This link could not be opened; the page stands as it was built.";
  }
}

/** What lies in closed folds cannot be gone to. */
function openFolds(element: Element): void {
  for (let fold = element.closest("details"); fold; fold = fold.parentElement?.closest("details") ?? null) {
    fold.open = true;
  }
}

function firstOfContent(): Element {
  return document.querySelector(".md-content__inner > *") ?? document.body;
}

/** Wait for the script of an element that has a bundle of its own, but not for ever. */
async function definition({ of }: Shared): Promise<void> {
  const [tag = ""] = of.split(" ");
  if (!/^kv-[a-z]+$/.test(tag) || !document.querySelector(`${tag}:not(:defined)`)) return;
  const late = new Promise((resolve) => setTimeout(resolve, LONGEST_WAIT_MS));
  await Promise.race([customElements.whenDefined(tag), late]);
}

/** By its id, or, where the page has changed, by its kind. */
function find({ id, of }: Shared): Shareable {
  const named = document.getElementById(id);
  if (isShareable(named) && kindOf(named) === of) return named;
  const [tag = ""] = of.split(" ");
  const alike = /^kv-[a-z]+$/.test(tag) ? [...document.querySelectorAll(tag)] : [];
  const found = alike.find((element): element is Shareable => isShareable(element) && kindOf(element) === of);
  if (found) return found;
  throw new LinkProblem("This link is for something that is no longer on this page, or has changed since; the page stands as it was built.");
}

/** From here on the address names the element, and a reload brings no old text back. */
function forget(element: Element): void {
  history.replaceState(history.state, "", `#${element.id}`);
  opened = undefined;
}
