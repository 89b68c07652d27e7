// Tables of any length: only rows in view are elements. Filter, order by column, arrows from row to row.

import { h, newId, setAttribute, setText, svg } from "./dom.js";
import { keep } from "./names.js";

const ROW_PX = 38;
const MARGIN_ROWS = 6;
const STEPS = { ArrowDown: 1, ArrowUp: -1, PageDown: 12, PageUp: -12, Home: -Infinity, End: Infinity };

const classOf = (column) => [column.isNumber ? "number" : "", column.kind ?? ""].join(" ").trim();

export class Table {
  /**
   * `columns`: [{ title, text(row), value(row), isNumber, make() -> { element, draw(row) }, link(row), hint, kind }]; `value`
   * orders by the column, `make` draws a cell of its own, `link` makes it the row's link. `order` is a column's number or
   * title; the order is kept in the address of the place `kept`, as `sort=In /s` or, the smallest first, `sort=-In /s`.
   */
  constructor({ caption, columns, keyOf, filterOf, order, isDescending = true, empty = "Nothing here yet", limit = 0, kept = null }) {
    Object.assign(this, { columns, keyOf, filterOf, order, isDescending, empty, limit, kept });
    if (typeof order === "string") this.orderBy(kept?.query?.sort, order);
    this.rows = [];
    this.shown = [];
    this.made = new Map();
    this.filter = "";
    this.active = 0;
    this.heads = columns.map((column, index) => this.head(column, index));
    this.above = h("tr", { "aria-hidden": "true", class: "space" }, h("td", { colspan: columns.length }));
    this.below = h("tr", { "aria-hidden": "true", class: "space" }, h("td", { colspan: columns.length }));
    this.body = h("tbody", {}, this.above, this.below);
    this.table = h("table", {}, h("caption", { class: "hidden" }, caption), h("thead", {}, h("tr", { "aria-rowindex": 1 }, this.heads)), this.body);
    this.scroller = h("div", { class: "scroller", tabindex: "-1" }, this.table);
    this.nothing = h("p", { class: "nothing", hidden: true }, empty);
    this.element = h("section", { class: "card table-card", "aria-label": caption }, this.tools(caption), this.scroller, this.nothing);
    this.scroller.addEventListener("scroll", () => this.soon());
    this.body.addEventListener("keydown", (event) => this.move(event));
    this.body.addEventListener("click", (event) => this.open(event));
    this.body.addEventListener("focusin", (event) => this.noteFocus(event));
    this.watcher = new ResizeObserver(() => this.soon());
    this.watcher.observe(this.scroller);
    this.arrange();
  }

  tools(caption) {
    this.heading = h("h2", {}, caption);
    this.tally = h("span", { class: "tally", role: "status" });
    if (!this.filterOf) return h("header", { class: "table-head" }, this.heading, this.tally);
    const id = newId("filter");
    this.input = h("input", { type: "search", id, placeholder: "Filter", autocomplete: "off", spellcheck: "false", "aria-keyshortcuts": "/", class: "filter", "aria-label": `Filter ${caption}` });
    this.input.addEventListener("input", () => {
      this.filter = this.input.value.trim().toLowerCase();
      this.active = 0;
      this.scroller.scrollTop = 0;
      this.arrange();
    });
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "Enter") {
        event.preventDefault();
        this.focusRow(0);
      } else if (event.key === "Escape" && this.input.value !== "") {
        event.stopPropagation();
        this.input.value = "";
        this.input.dispatchEvent(new Event("input"));
      }
    });
    return h("header", { class: "table-head" }, this.heading, this.tally, h("div", { class: "filter-box" }, this.input, h("kbd", { "aria-hidden": "true" }, "/")));
  }

  orderBy(wanted = "", otherwise) {
    const title = wanted.replace(/^-/, "");
    const index = this.columns.findIndex((column) => column.value && column.title === title);
    this.order = index < 0 ? this.columns.findIndex((column) => column.title === otherwise) : index;
    this.isDescending = index < 0 || !wanted.startsWith("-");
  }

  head(column, index) {
    const attributes = { scope: "col", class: classOf(column), title: column.hint };
    if (!column.value) return h("th", attributes, column.title);
    const click = () => {
      this.isDescending = this.order === index ? !this.isDescending : Boolean(column.isNumber);
      this.order = index;
      if (this.kept) keep(this.kept, "sort", `${this.isDescending ? "" : "-"}${column.title}`);
      this.arrange(true);
    };
    return h("th", attributes, h("button", { type: "button", class: "order", onclick: click }, column.title));
  }

  /** Takes new rows; those that stay keep their elements. */
  set(rows) {
    this.rows = rows;
    this.arrange();
  }

  /** Whether the rows may not change their places: the pointer or the focus is among them. */
  get isHeld() {
    return this.body.matches(":hover") || this.body.contains(document.activeElement);
  }

  arrange(isAsked = false) {
    const wanted = this.filter.split(/\s+/).filter(Boolean);
    let shown = this.rows;
    if (wanted.length) shown = shown.filter((row) => wanted.every((word) => this.filterOf(row).toLowerCase().includes(word)));
    const column = this.columns[this.order];
    if (column && column.value) {
      const sign = this.isDescending ? -1 : 1;
      const keyed = shown.map((row) => [column.value(row), this.keyOf(row), row]);
      const before = isAsked || !this.isHeld ? null : new Map(this.shown.map((row, index) => [this.keyOf(row), index]));
      keyed.sort((one, other) => {
        const places = before && [before.get(one[1]), before.get(other[1])];
        if (places && places.every((at) => at !== undefined)) return places[0] - places[1];
        const [a, b] = [one[0], other[0]];
        if (a !== b) return sign * (a < b || a === undefined ? -1 : 1);
        return one[1] < other[1] ? -1 : 1;
      });
      shown = keyed.map((each) => each[2]);
    }
    this.shown = this.limit ? shown.slice(0, this.limit) : shown;
    this.heads.forEach((each, index) => setAttribute(each, "aria-sort", index === this.order ? (this.isDescending ? "descending" : "ascending") : "none"));
    const total = this.rows.length;
    setText(this.tally, this.shown.length === total ? String(total) : `${this.shown.length} of ${total}`);
    setText(this.nothing, total ? "No row fits the filter" : this.empty);
    this.nothing.hidden = this.shown.length > 0;
    this.scroller.hidden = this.shown.length === 0;
    setAttribute(this.table, "aria-rowcount", String(this.shown.length + 1));
    this.draw();
  }

  soon() {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      this.draw();
    });
  }

  draw() {
    const height = this.scroller.clientHeight || 600;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW_PX) - MARGIN_ROWS);
    const last = Math.min(this.shown.length, first + Math.ceil(height / ROW_PX) + 2 * MARGIN_ROWS);
    const wanted = new Map();
    for (let index = first; index < last; index += 1) wanted.set(this.keyOf(this.shown[index]), index);
    const focused = document.activeElement;
    for (const [key, made] of this.made) {
      if (!wanted.has(key) && !made.element.contains(focused)) {
        made.element.remove();
        this.made.delete(key);
      }
    }
    let after = this.above;
    for (const [key, index] of wanted) {
      const row = this.shown[index];
      let made = this.made.get(key);
      if (!made) {
        made = this.make();
        this.made.set(key, made);
      }
      made.draw(row);
      setAttribute(made.element, "aria-rowindex", String(index + 2));
      made.element.dataset.index = index;
      const link = made.element.querySelector("a");
      if (link) link.tabIndex = index === Math.min(this.active, this.shown.length - 1) ? 0 : -1;
      if (after.nextElementSibling !== made.element) after.after(made.element);
      after = made.element;
    }
    this.above.style.height = `${first * ROW_PX}px`;
    this.below.style.height = `${(this.shown.length - last) * ROW_PX}px`;
  }

  make() {
    const cells = this.columns.map((column) => {
      const cell = h("td", { class: classOf(column) });
      if (column.make) {
        const own = column.make();
        cell.append(own.element);
        return { cell, draw: own.draw };
      }
      if (column.link) {
        const link = h("a", {});
        cell.append(link);
        return {
          cell,
          draw: (row) => {
            setText(link, column.text(row));
            setAttribute(link, "title", column.text(row));
            setAttribute(link, "href", column.link(row));
          },
        };
      }
      return { cell, draw: (row) => setText(cell, column.text(row)) };
    });
    const element = h("tr", {}, cells.map((each) => each.cell));
    return { element, draw: (row) => cells.forEach((each) => each.draw(row)) };
  }

  open(event) {
    const link = event.target.closest("tr")?.querySelector("a");
    if (link && !event.target.closest("a, button") && String(getSelection()) === "") link.click();
  }

  noteFocus(event) {
    const index = event.target.closest("tr")?.dataset.index;
    if (index !== undefined) this.active = Number(index);
  }

  move(event) {
    const step = STEPS[event.key];
    if (step === undefined || event.target.closest("button")) return;
    event.preventDefault();
    if (event.key === "ArrowUp" && this.active === 0 && this.input) this.input.focus();
    else this.focusRow(this.active + step);
  }

  /** Moves the focus to a row's link, and the row into view. */
  focusRow(index) {
    if (!this.shown.length) return;
    this.active = Math.min(this.shown.length - 1, Math.max(0, index));
    const top = this.active * ROW_PX;
    const head = this.table.tHead.offsetHeight;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    const bottom = top + ROW_PX + head - this.scroller.clientHeight;
    if (bottom > this.scroller.scrollTop) this.scroller.scrollTop = bottom;
    this.draw();
    this.made.get(this.keyOf(this.shown[this.active]))?.element.querySelector("a")?.focus({ preventScroll: true });
    this.draw();
  }

  focusFilter() {
    if (!this.input) return false;
    this.input.focus();
    this.input.select();
    return true;
  }

  close() {
    this.watcher.disconnect();
  }
}

/** A number with a bar beside it, as wide as its share of the largest one. */
export function bar(valueOf, format, mostOf) {
  return () => {
    const text = h("span", {});
    const width = svg("rect", { x: 0, y: 0, height: 4, rx: 2, width: 0 });
    const drawing = svg("svg", { class: "bar-share", viewBox: "0 0 60 4", "aria-hidden": "true" }, width);
    return {
      element: h("span", { class: "with-bar" }, text, drawing),
      draw: (row) => {
        const value = valueOf(row) || 0;
        setText(text, format(value));
        setAttribute(width, "width", String(60 * Math.min(1, value / Math.max(1, mostOf()))));
      },
    };
  };
}
