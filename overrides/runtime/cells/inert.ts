/**
 * Markup made by readers' code, rebuilt from an allow-list: nothing in it can run, load anything
 * from elsewhere, or lie over the rest of the page.
 */

const LARGEST_TREE = 20_000;
const SVG = "http://www.w3.org/2000/svg";
const HTML = "http://www.w3.org/1999/xhtml";

const words = (text: string): ReadonlySet<string> => new Set(text.split(" "));

const ELEMENTS = words(
  "a abbr b blockquote br caption cite code col colgroup dd del details dfn div dl dt em figcaption " +
    "figure h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark ol p pre q s samp section small span strong " +
    "sub summary sup table tbody td tfoot th thead time tr u ul var wbr",
);
const SVG_ELEMENTS = words(
  "svg g path rect circle ellipse line polyline polygon text tspan title desc defs symbol use " +
    "pattern lineargradient radialgradient stop clippath mask marker",
);
/** Left out with all they hold; of any other element, only its name is left out. */
const DROPPED = words(
  "script style template noscript iframe frame frameset object embed applet audio video canvas " +
    "form button input select textarea option optgroup datalist link meta base title head animate " +
    "animatemotion animatetransform set foreignobject image feimage math portal",
);
const ATTRIBUTES = words(
  "class title lang dir role style colspan rowspan scope span headers align valign width height " +
    "start reversed value datetime open alt tabindex " +
    "viewbox preserveaspectratio x y x1 x2 y1 y2 cx cy r rx ry d dx dy points transform fill stroke " +
    "stroke-width stroke-dasharray stroke-dashoffset stroke-linecap stroke-linejoin stroke-opacity " +
    "fill-opacity fill-rule opacity offset stop-color stop-opacity font-size font-family font-weight " +
    "font-style text-anchor dominant-baseline alignment-baseline text-decoration letter-spacing " +
    "rotate textlength lengthadjust clip-path mask marker-start marker-mid marker-end clip-rule " +
    "vector-effect paint-order shape-rendering patternunits patterncontentunits patterntransform " +
    "gradientunits gradienttransform spreadmethod fx fy clippathunits maskunits maskcontentunits " +
    "markerunits markerwidth markerheight orient refx refy visibility display color",
);
const LOCAL_PICTURE = /^data:image\/(png|gif|jpeg|webp|svg\+xml)[;,]/i;
const LINK = /^(https?:|mailto:|#)/i;
/** What in a value could fetch something: functions of CSS that take an address, escapes hiding them. */
const FETCHES = /(url|image|image-set|src|element|cross-fade|expression|attr)\s*\(|@import|\\/i;
const LOCAL_REFERENCE = /^url\(\s*["']?#[\w-]+["']?\s*\)$/i;

/** Rebuild markup; ids get a prefix, so that they never meet those of the page. */
export function inert(markup: string, prefix: string): DocumentFragment {
  const parsed = new DOMParser().parseFromString(markup, "text/html");
  const whole = document.createDocumentFragment();
  const ids = new Set([...parsed.querySelectorAll("[id]")].map((element) => element.id));
  const builder = new Builder(prefix, ids);
  builder.copyChildren(parsed.body, whole);
  return whole;
}

class Builder {
  #left = LARGEST_TREE;
  readonly #prefix: string;
  readonly #ids: ReadonlySet<string>;

  constructor(prefix: string, ids: ReadonlySet<string>) {
    this.#prefix = prefix;
    this.#ids = ids;
  }

  copyChildren(from: Node, to: Node): void {
    for (const child of from.childNodes) {
      if (this.#left-- <= 0) return;
      if (child instanceof Text) to.appendChild(new Text(child.data));
      else if (child instanceof Element) this.#copyElement(child, to);
    }
  }

  #copyElement(element: Element, to: Node): void {
    const name = element.localName.toLowerCase();
    const isSvg = element.namespaceURI === SVG;
    if (!(isSvg ? SVG_ELEMENTS : ELEMENTS).has(name)) {
      if (DROPPED.has(name)) return;
      const copy = document.createElement(isSvg ? "span" : "div");
      this.#copyAttributes(element, copy);
      this.copyChildren(element, to.appendChild(copy));
      return;
    }
    const copy = document.createElementNS(isSvg ? SVG : HTML, element.localName);
    this.#copyAttributes(element, copy);
    this.copyChildren(element, to.appendChild(copy));
  }

  #copyAttributes(from: Element, to: Element): void {
    for (const { name, value } of from.attributes) {
      const kept = this.#kept(name.toLowerCase(), value, from);
      if (kept !== undefined) to.setAttribute(name, kept);
    }
    if (from.classList.contains("kv-chart") && !from.firstElementChild) {
      to.append(from.getAttribute("aria-label") ?? ""); // charts are drawn in live pictures only
    }
    if (to.localName === "a" && to.hasAttribute("href")) {
      to.setAttribute("rel", "noopener noreferrer");
      to.setAttribute("target", "_blank");
    }
  }

  /** The attribute's value as it may stand, or nothing. */
  #kept(name: string, value: string, element: Element): string | undefined {
    if (name === "id") return this.#prefix + value;
    if (name.startsWith("aria-")) return name.endsWith("by") ? this.#ownIds(value) : value;
    if (name === "href" || name === "xlink:href") return this.#address(value.trim(), element);
    if (name === "src") return LOCAL_PICTURE.test(value.trim()) ? value.trim() : undefined;
    if (!ATTRIBUTES.has(name)) return undefined;
    if (name === "style") return safeStyle(value);
    if (name === "tabindex") return value === "0" ? value : undefined;
    if (LOCAL_REFERENCE.test(value.trim())) return this.#ownReference(value);
    return element.namespaceURI === SVG && FETCHES.test(value) ? undefined : value;
  }

  #address(value: string, element: Element): string | undefined {
    if (value.startsWith("#")) return this.#ownFragment(value);
    return element.namespaceURI === HTML && LINK.test(value) ? value : undefined;
  }

  #ownFragment(value: string): string {
    const id = value.slice(1);
    return this.#ids.has(id) ? `#${this.#prefix}${id}` : value;
  }

  #ownReference(value: string): string {
    return value.replace(/#[\w-]+/, (fragment) => this.#ownFragment(fragment));
  }

  #ownIds(value: string): string {
    const ids = value.split(/\s+/).filter((id) => this.#ids.has(id));
    return ids.map((id) => this.#prefix + id).join(" ");
  }
}

/** The declarations of a style that fetch nothing. */
function safeStyle(value: string): string {
  const { style } = document.implementation.createHTMLDocument("").createElement("p");
  style.cssText = value;
  for (const property of [...style]) {
    if (FETCHES.test(style.getPropertyValue(property))) style.removeProperty(property);
  }
  return style.cssText;
}
