/**
 * `VirtualTable`: a table of any length of which only the visible rows exist. Rows have one height; the elements of rows that
 * scroll out are reused. Arrow keys, Page Up and Down, Home and End move between rows, Enter opens one; screen readers get
 * the number of all rows and of each row.
 */

import { fill, h, set } from "./dom.js";

const ROW = 34;
const MARGIN = 8;

/**
 * @template T
 * @typedef {object} Column
 * @property {string} id @property {string} title @property {(row: T) => import("./dom.js").Child} cell
 * @property {(row: T) => number | string} [sort] @property {boolean} [numeric] @property {boolean} [optional] @property {string} [hint]
 */

/** @template T */
export class VirtualTable {
  /**
   * @param {string} label @param {Column<T>[]} columns
   * @param {{key: (row: T) => string, open?: (row: T) => void, onSort?: (id: string, down: boolean) => void, sort?: string, down?: boolean, rows?: number}} options
   */
  constructor(label, columns, options) {
    this.columns = columns;
    this.options = options;
    this.sort = options.sort ?? "";
    this.down = options.down ?? false;
    /** @type {T[]} */
    this.all = [];
    /** @type {T[]} */
    this.rows = [];
    this.focused = 0;
    /** Grows when cells change although their rows do not: ages. */
    this.tick = 0;
    /** @type {HTMLElement[]} */
    this.pool = [];
    /** What each element shows. @type {WeakMap<HTMLElement, {row: T, index: number, tick: number}>} */
    this.drawn = new WeakMap();
    this.header = h("div", { class: "vrow vhead", role: "row", "aria-rowindex": 1 });
    this.space = h("div", { class: "vspace", role: "rowgroup" });
    this.body = h("div", { class: "vbody", tabindex: -1, style: { "max-height": `${(options.rows ?? 16) * ROW}px` } }, this.space);
    this.element = h("div", { class: "vtable", role: "table", "aria-label": label, "aria-colcount": columns.length }, h("div", { role: "rowgroup" }, this.header), this.body);
    this.body.addEventListener("scroll", () => this.schedule(), { passive: true });
    this.body.addEventListener("keydown", (event) => this.onKey(event));
    this.isScheduled = false;
    this.drawHeader();
    this.resize = new ResizeObserver(() => this.schedule());
    this.resize.observe(this.body);
  }

  /** Show these rows. @param {T[]} rows */
  show(rows) {
    this.all = rows;
    this.rows = this.sorted(rows);
    this.space.style.height = `${this.rows.length * ROW}px`;
    set(this.element, { "aria-rowcount": this.rows.length + 1 });
    this.focused = Math.max(0, Math.min(this.focused, this.rows.length - 1));
    this.draw();
  }

  /** @param {T[]} rows */
  sorted(rows) {
    const column = this.columns.find((each) => each.id === this.sort);
    const by = column?.sort;
    if (!by) return rows;
    const sign = this.down ? -1 : 1;
    return rows
      .map((row) => /** @type {[number | string, T]} */ ([by(row), row]))
      .sort(([a], [b]) => (a < b ? -sign : a > b ? sign : 0))
      .map(([, row]) => row);
  }

  drawHeader() {
    fill(this.header, this.columns.map((column) => {
      const sorted = this.sort === column.id ? (this.down ? "descending" : "ascending") : "none";
      const content = column.sort
        ? h("button", { type: "button", class: "sort", title: column.hint, onclick: () => this.sortBy(column) }, column.title, h("span", { "aria-hidden": "true" }, sorted === "none" ? "" : this.down ? " ▾" : " ▴"))
        : column.title;
      return h("div", { role: "columnheader", class: this.classOf(column), "aria-sort": column.sort ? sorted : null }, content);
    }));
  }

  /** @param {Column<T>} column */
  classOf(column) {
    return `vcell col-${column.id}${column.numeric ? " number" : ""}${column.optional ? " optional" : ""}`;
  }

  /** @param {Column<T>} column */
  sortBy(column) {
    this.down = this.sort === column.id ? !this.down : Boolean(column.numeric);
    this.sort = column.id;
    this.options.onSort?.(this.sort, this.down);
    const index = this.columns.indexOf(column);
    this.drawHeader();
    this.show(this.all);
    /** @type {HTMLElement | null} */ (this.header.children[index].querySelector("button"))?.focus();
  }

  schedule() {
    if (this.isScheduled) return;
    this.isScheduled = true;
    requestAnimationFrame(() => {
      this.isScheduled = false;
      this.draw();
    });
  }

  /** Draw the visible rows into the pool. */
  draw() {
    const first = Math.max(0, Math.floor(this.body.scrollTop / ROW) - MARGIN);
    const count = Math.min(this.rows.length - first, Math.ceil((this.body.clientHeight || 600) / ROW) + 2 * MARGIN);
    while (this.pool.length < count) {
      const row = h("div", { class: "vrow", role: "row", onclick: (/** @type {MouseEvent} */ event) => this.onClick(event, row) });
      this.pool.push(row);
      this.space.append(row);
    }
    const size = this.pool.length;
    this.pool.forEach((element, slot) => {
      // a row keeps its element while it is visible, so that focus and a click that has begun stay with it
      const index = first + ((((slot - first) % size) + size) % size);
      const row = this.rows[index];
      element.hidden = row === undefined || index >= first + count;
      if (element.hidden) return;
      set(element, { tabindex: index === this.focused ? 0 : -1 });
      const drawn = this.drawn.get(element);
      if (drawn && drawn.row === row && drawn.index === index && drawn.tick === this.tick) return;
      this.drawn.set(element, { row, index, tick: this.tick });
      element.style.transform = `translateY(${index * ROW}px)`;
      set(element, { "aria-rowindex": index + 2, "data-index": index });
      fill(element, this.columns.map((column, at) =>
        h("div", { role: at ? "cell" : "rowheader", class: this.classOf(column) }, column.cell(row))));
    });
  }

  /** @param {MouseEvent} event @param {HTMLElement} element */
  onClick(event, element) {
    if (/** @type {Element} */ (event.target).closest("a, button")) return;
    const row = this.rows[Number(element.dataset.index)];
    if (row !== undefined) this.options.open?.(row);
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const page = Math.max(1, Math.floor(this.body.clientHeight / ROW) - 1);
    /** @type {Record<string, number>} */
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.rows.length, End: this.rows.length };
    if (event.key === "Enter" && !(/** @type {Element} */ (event.target).closest("a, button"))) {
      const row = this.rows[this.focused];
      if (row !== undefined) this.options.open?.(row);
      return;
    }
    const move = moves[event.key];
    if (move === undefined) return;
    event.preventDefault();
    this.focused = Math.max(0, Math.min(this.rows.length - 1, this.focused + move));
    const top = this.focused * ROW;
    if (top < this.body.scrollTop) this.body.scrollTop = top;
    else if (top + ROW > this.body.scrollTop + this.body.clientHeight) this.body.scrollTop = top + ROW - this.body.clientHeight;
    this.draw();
    /** @type {HTMLElement | null} */ (this.space.querySelector(`[data-index="${this.focused}"]:not([hidden])`))?.focus({ preventScroll: true });
  }

  dispose() {
    this.resize.disconnect();
  }
}
