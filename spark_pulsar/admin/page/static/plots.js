// Small line plots in SVG: one or two series over the last minutes, with a line to read values at by pointer or arrows.

import { h, newId, setAttribute, setText, svg } from "./dom.js";

const HEIGHT = 150;
/** Width of a plot that is not shown yet. */
const ANY_WIDTH = 440;
const [LEFT, RIGHT, TOP, BOTTOM] = [60, 8, 10, 22];
const INNER_HEIGHT = HEIGHT - TOP - BOTTOM;
const SPAN_MS = 5 * 60_000;

/** The next "round" number of 1, 2, 2.5, 5 or 10 times a power of ten. */
function ceiling(value, isBytes) {
  if (!(value > 0)) return isBytes ? 1024 : 1;
  const base = isBytes ? 1024 ** Math.floor(Math.log(value) / Math.log(1024)) : 1;
  const scaled = value / base;
  const power = 10 ** Math.floor(Math.log10(scaled));
  const step = [1, 2, 4, 5, 8, 10].find((each) => scaled <= each * power * 1.0000001);
  return step * power * base;
}

const point = (x, y) => `${x.toFixed(1)},${y.toFixed(1)}`;

/** Makes path data of values; a gap where a value is not known. */
function lines(xs, values, y) {
  let data = "";
  let isDrawing = false;
  values.forEach((value, index) => {
    if (Number.isNaN(value)) {
      isDrawing = false;
      return;
    }
    data += `${isDrawing ? "L" : "M"}${point(xs[index], y(value))}`;
    if (!isDrawing && Number.isNaN(values[index + 1] ?? NaN)) data += "h0"; // a value alone is a dot
    isDrawing = true;
  });
  return data;
}

function area(xs, values, y) {
  const first = values.findIndex((value) => !Number.isNaN(value));
  if (first < 0) return "";
  const known = values.slice(first).map((value) => (Number.isNaN(value) ? 0 : value));
  const at = xs.slice(first);
  const top = known.map((value, index) => point(at[index], y(value))).join("L");
  return `M${point(at[0], y(0))}L${top}L${point(at.at(-1), y(0))}Z`;
}

export class LinePlot {
  /** `series`: [{ name, label, kind }], of a History; `kind` is the class of its colour. */
  constructor({ title, series, format, isBytes = false }) {
    this.series = series;
    this.format = format;
    this.isBytes = isBytes;
    this.at = null;
    const id = newId("plot");
    this.values = series.map(() => h("output", { class: "plot-value" }, "–"));
    const legend = h(
      "div",
      { class: "legend" },
      series.map((each, index) => h("span", { class: `key ${each.kind}` }, h("i", { "aria-hidden": "true" }), h("span", {}, each.label), this.values[index])),
    );
    this.grid = svg("g", { class: "grid" });
    this.fills = series.map((each) => svg("path", { class: `fill ${each.kind}` }));
    this.paths = series.map((each) => svg("path", { class: `line ${each.kind}` }));
    this.dots = series.map((each) => svg("circle", { class: `dot ${each.kind}`, r: 3.5 }));
    this.cursor = svg("line", { class: "cursor", y1: TOP, y2: TOP + INNER_HEIGHT });
    this.drawing = svg(
      "svg",
      { role: "img", tabindex: "0", "aria-labelledby": `${id}-title ${id}-text`, class: "plot" },
      this.grid,
      this.fills,
      this.paths,
      this.cursor,
      this.dots,
    );
    this.text = h("span", { class: "hidden", id: `${id}-text` });
    this.moment = h("span", { class: "moment" });
    this.element = h("figure", { class: "card plot-card" }, h("figcaption", {}, h("h3", { id: `${id}-title` }, title), this.moment, legend), this.drawing, this.text);
    this.drawing.addEventListener("pointermove", (event) => this.point(event));
    this.drawing.addEventListener("pointerleave", () => this.read(null));
    this.drawing.addEventListener("blur", () => this.read(null));
    this.drawing.addEventListener("keydown", (event) => this.step(event));
    this.draw({ times: [], series: Object.fromEntries(series.map((each) => [each.name, []])) });
  }

  point(event) {
    if (!this.xs || !this.xs.length) return;
    const box = this.drawing.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * this.width;
    let best = 0;
    this.xs.forEach((each, index) => {
      if (Math.abs(each - x) < Math.abs(this.xs[best] - x)) best = index;
    });
    this.read(best);
  }

  step(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || !this.history) return;
    event.preventDefault();
    event.stopPropagation();
    const last = this.history.times.length - 1;
    this.read(Math.min(last, Math.max(0, (this.at ?? last + (by < 0 ? 1 : 0)) + by)));
  }

  /** Shows the values at a sample, the latest ones for null. */
  read(index) {
    this.at = index;
    if (this.history) this.draw(this.history);
  }

  draw(history) {
    this.history = history;
    const times = history.times;
    const end = times.at(-1) ?? 0;
    const begin = end - SPAN_MS;
    const shown = this.series.map((each) => history.series[each.name]);
    const most = Math.max(0, ...shown.flat().filter((value) => !Number.isNaN(value)));
    const top = ceiling(most, this.isBytes);
    const width = this.drawing.clientWidth || ANY_WIDTH;
    const inner = width - LEFT - RIGHT;
    const y = (value) => TOP + INNER_HEIGHT * (1 - value / top);
    this.xs = times.map((time) => LEFT + (inner * (time - begin)) / SPAN_MS);
    this.drawGrid(top, y, width);
    const index = this.at === null || this.at >= times.length ? times.length - 1 : this.at;
    shown.forEach((values, number) => {
      setAttribute(this.paths[number], "d", lines(this.xs, values, y));
      setAttribute(this.fills[number], "d", area(this.xs, values, y));
      const value = values[index];
      const isKnown = value !== undefined && !Number.isNaN(value);
      this.dots[number].style.visibility = isKnown && this.at !== null ? "visible" : "hidden";
      if (isKnown) {
        setAttribute(this.dots[number], "cx", String(this.xs[index]));
        setAttribute(this.dots[number], "cy", String(y(value)));
      }
      setText(this.values[number], isKnown ? this.format(value) : "–");
    });
    this.cursor.style.visibility = this.at === null ? "hidden" : "visible";
    if (this.at !== null && this.xs[index] !== undefined) {
      setAttribute(this.cursor, "x1", String(this.xs[index]));
      setAttribute(this.cursor, "x2", String(this.xs[index]));
    }
    setText(this.moment, this.at === null || times[index] === undefined ? "" : new Date(times[index]).toLocaleTimeString("sv-SE"));
    const told = this.series.map((each, number) => `${each.label} ${this.values[number].textContent}`);
    setText(this.text, `${told.join(", ")}; at most ${this.format(most)} in the last five minutes`);
  }

  drawGrid(top, y, width) {
    if (this.top === top && this.width === width) return;
    Object.assign(this, { top, width });
    setAttribute(this.drawing, "viewBox", `0 0 ${width} ${HEIGHT}`);
    const parts = [0, 0.5, 1].flatMap((share) => {
      const at = y(top * share);
      return [svg("line", { x1: LEFT, x2: width - RIGHT, y1: at, y2: at }), svg("text", { x: LEFT - 8, y: at + 4, "text-anchor": "end" }, this.format(top * share))];
    });
    for (const minutes of [4, 3, 2, 1, 0]) {
      const x = LEFT + (width - LEFT - RIGHT) * (1 - minutes / 5);
      const anchor = minutes === 0 ? "end" : "middle";
      parts.push(svg("text", { x, y: HEIGHT - 5, "text-anchor": anchor }, minutes ? `−${minutes} min` : "now"));
    }
    this.grid.replaceChildren(...parts);
  }
}

/** Draws the last values of a series in a few pixels, for rows of tables. */
export class Sparkline {
  constructor(kind) {
    this.path = svg("path", { class: `line ${kind}` });
    this.element = svg("svg", { viewBox: "0 0 80 20", class: "sparkline", "aria-hidden": "true", preserveAspectRatio: "none" }, this.path);
  }

  draw(values) {
    const shown = values.slice(-40);
    const most = Math.max(1e-9, ...shown.filter((value) => !Number.isNaN(value)));
    const first = 40 - shown.length;
    const xs = shown.map((_, index) => ((first + index) * 80) / 39);
    setAttribute(this.path, "d", lines(xs, shown, (value) => 18 - 16 * (value / most)));
  }
}
