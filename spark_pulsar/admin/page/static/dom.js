// Elements and texts. Text becomes text nodes and nothing is parsed as HTML, so that names and messages stay harmless.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Makes an element; attributes that begin with "on" are listeners. */
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** Sets a text if it differs, so that a screen reader and a selection are not disturbed. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** Number of the next label that needs an id. */
let ids = 0;
export const newId = (prefix) => `${prefix}-${++ids}`;

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (value) => (value === undefined || value === null ? "–" : plain.format(value));

/** A number in little room: 12.3K. */
export const brief = (value) => (value === undefined || value === null ? "–" : value < 10_000 ? plain.format(value) : short.format(value));

export function rate(value) {
  if (value === undefined || value === null || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  if (value < 10) return value.toFixed(1);
  return brief(value);
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(value) {
  if (value === undefined || value === null || Number.isNaN(value)) return "–";
  let size = Math.max(0, value);
  let unit = 0;
  while (size >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit && size < 100 ? size.toFixed(1) : Math.round(size)} ${UNITS[unit]}`;
}

export function duration(seconds) {
  if (seconds === undefined || seconds === null || seconds < 0) return "–";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

/** Date and time of milliseconds, in the viewer's zone; a dash for none. */
export function when(ms) {
  if (!ms || ms < 0) return "–";
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? String(ms) : date.toLocaleString("sv-SE");
}

/**
 * Milliseconds of a date, or of a date and a time, in the viewer's zone unless it names one; NaN for another text. A date
 * alone is its first moment here, while Date.parse takes it for one in UTC.
 */
export function timeOf(text) {
  const wanted = text.trim().replace(" ", "T");
  return Date.parse(/^\d{4}-\d\d-\d\d$/.test(wanted) ? `${wanted}T00:00` : wanted);
}

/** A name of the API as words: "message TTL in seconds". */
export const words = (name) =>
  name
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .replaceAll("_", " ")
    .toLowerCase()
    .replace(/\bttl\b/, "TTL")
    .replace(/\bmb\b/, "MB");

/** A storage of the browser, `localStorage` or `sessionStorage`; null where its user allows none. */
export function storage(name) {
  try {
    return window[name];
  } catch {
    return null;
  }
}

/** Base64 of bytes, in pieces that a call's arguments can hold. */
export function base64(data) {
  let text = "";
  for (let at = 0; at < data.length; at += 8192) text += String.fromCharCode(...data.subarray(at, at + 8192));
  return btoa(text);
}

export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
