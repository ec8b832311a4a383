/**
 * Elements by function calls. Text is always text: nothing here parses HTML.
 * Styles are set through the object model, which a strict content policy allows.
 */

/** @typedef {Node | string | number | null | undefined | false | Child[]} Child */
/** @typedef {{[name: string]: unknown}} Attributes */

/**
 * Set attributes, listeners (`onclick`), styles (`style: {width: "3%"}`) and properties of form fields.
 * @param {Element} element @param {Attributes} attributes
 */
export function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else if (name === "style") {
      const target = /** @type {HTMLElement} */ (element).style;
      for (const [key, text] of Object.entries(/** @type {Record<string, string>} */ (value))) target.setProperty(key, text);
    } else if (name === "value" || name === "checked" || name === "selected") {
      /** @type {any} */ (element)[name] = value;
    } else if (value === false || value === null || value === undefined) element.removeAttribute(name);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

/** @param {ParentNode & Node} parent @param {Child[]} children */
function append(parent, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(parent, child);
    else parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/**
 * Make an HTML element.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag @param {Attributes} [attributes] @param {...Child} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  append(element, children);
  set(element, attributes);
  return element;
}

/**
 * Make an SVG element.
 * @param {string} tag @param {Attributes} [attributes] @param {...Child} children
 * @returns {SVGElement}
 */
export function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  append(element, children);
  set(element, attributes);
  return element;
}

/** Replace the content of an element. @param {Element} element @param {...Child} children */
export function fill(element, ...children) {
  const content = document.createDocumentFragment();
  append(content, children);
  element.replaceChildren(content);
}

/**
 * Make a table with a caption for screen readers.
 * @param {string} caption @param {string[]} header @param {Child[][]} rows @param {{numeric?: number[]}} [options]
 */
export function table(caption, header, rows, options = {}) {
  const numeric = new Set(options.numeric ?? []);
  /** @param {number} index */
  const kind = (index) => (numeric.has(index) ? { class: "number" } : {});
  return h("div", { class: "scrolls", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {},
      h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, header.map((text, index) => h("th", { scope: "col", ...kind(index) }, text)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, index) =>
        index ? h("td", kind(index), cell) : h("th", { scope: "row" }, cell)))))));
}

/** Make a chart's table, which is closed at first. @param {string} caption @param {string[]} header @param {Child[][]} rows */
export function figures(caption, header, rows) {
  const numeric = header.map((_, index) => index).slice(1);
  return h("details", { class: "figures" }, h("summary", {}, "Figures as a table"), table(caption, header, rows, { numeric }));
}

/** Make a section with a heading. @param {string} id @param {Child} title @param {...Child} children */
export function section(id, title, ...children) {
  return h("section", { "aria-labelledby": `${id}-title`, id },
    h("h2", { id: `${id}-title` }, title), children);
}
