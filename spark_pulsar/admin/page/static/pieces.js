// Parts that the views share: heads with actions, tabs, tiles, facts, problems.

import { problemText } from "./dialogs.js";
import { bytes, h, newId, rate, setText } from "./dom.js";
import { LinePlot } from "./plots.js";

/** Head of a view; `actions` are [text, listener, isDangerous]. */
export function head(kind, title, actions = []) {
  const buttons = actions.map(([text, run, isDangerous]) => h("button", { type: "button", class: isDangerous ? "danger-quiet" : "", onclick: run }, text));
  const badges = h("span", { class: "badges" });
  const element = h(
    "div",
    { class: "head" },
    h("div", {}, h("p", { class: "kind" }, kind), h("h1", { tabindex: "-1" }, title), badges),
    buttons.length ? h("div", { class: "actions", role: "group", "aria-label": "Actions" }, buttons) : null,
  );
  return { element, badges };
}

export function setBadges(badges, texts) {
  const wanted = texts.filter(Boolean);
  const now = wanted.map(([text, kind]) => `${kind}:${text}`).join("|");
  if (badges.dataset.now === now) return;
  badges.dataset.now = now;
  badges.replaceChildren(...wanted.map(([text, kind]) => h("span", { class: `badge ${kind}` }, text)));
}

/** Tiles of numbers: [label, name]; set with an object of texts by name. */
export function tiles(labels) {
  const made = new Map();
  const element = h(
    "dl",
    { class: "tiles" },
    labels.map(([label, name]) => {
      const [value, more] = [h("span", { class: "value" }, "–"), h("span", { class: "more" })];
      made.set(name, [value, more]);
      return h("div", { class: "card tile" }, h("dt", {}, label), h("dd", {}, value, more));
    }),
  );
  return {
    element,
    set: (values) => {
      for (const [name, [value, more = ""]] of Object.entries(values)) {
        setText(made.get(name)[0], value);
        setText(made.get(name)[1], more);
      }
    },
  };
}

/** A list of names and values, drawn anew when it differs. */
export function facts(title) {
  const list = h("dl", { class: "facts" });
  let now = "";
  return {
    element: h("section", { class: "card facts-card" }, title ? h("h2", {}, title) : null, list),
    set: (pairs) => {
      const wanted = JSON.stringify(pairs);
      if (wanted === now) return;
      now = wanted;
      list.replaceChildren(...pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
    },
  };
}

/** Tabs: [{ name, title, make() -> { element, refresh?, close? } }]; a panel is made when it is first shown. */
export class Tabs {
  constructor(tabs, current, select) {
    this.tabs = tabs;
    this.select = select;
    this.panel = h("div", { class: "panel", role: "tabpanel", id: newId("panel") });
    this.buttons = tabs.map((each, index) =>
      h("button", { type: "button", role: "tab", id: newId("tab"), "aria-controls": this.panel.id, "aria-keyshortcuts": String(index + 1), onclick: () => select(each.name) }, each.title),
    );
    this.list = h("div", { class: "tabs", role: "tablist" }, this.buttons);
    this.list.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const at = this.buttons.indexOf(document.activeElement);
      if (!step || at < 0) return;
      event.preventDefault();
      const next = (at + step + this.buttons.length) % this.buttons.length;
      this.show(tabs[next].name);
      this.buttons[next].focus();
      select(tabs[next].name);
    });
    this.element = h("div", {}, this.list, this.panel);
    this.show(current);
  }

  show(name) {
    const index = Math.max(0, this.tabs.findIndex((each) => each.name === name));
    if (this.index === index) return;
    this.current?.close?.();
    this.index = index;
    this.current = this.tabs[index].make();
    this.panel.replaceChildren(this.current.element);
    this.panel.setAttribute("aria-labelledby", this.buttons[index].id);
    this.buttons.forEach((each, at) => {
      each.setAttribute("aria-selected", String(at === index));
      each.tabIndex = at === index ? 0 : -1;
    });
  }

  press(number) {
    const wanted = this.tabs[number - 1];
    if (wanted) this.select(wanted.name);
    return Boolean(wanted);
  }

  close() {
    this.current?.close?.();
  }
}

/** A place for what could not be read, with the permission that is missing if that is why. */
export function problemPanel() {
  const title = h("strong", {});
  const text = h("span", {});
  const element = h("div", { class: "problem-panel", role: "alert", hidden: true }, title, " ", text);
  return {
    element,
    show: (error, what) => {
      element.hidden = !error;
      if (!error) return;
      setText(title, error.isRefusal ? `Not permitted: ${what}.` : `Cannot show ${what}.`);
      setText(text, problemText(error));
    },
  };
}

export const ratePlot = () =>
  new LinePlot({
    title: "Messages per second",
    series: [
      { name: "in", label: "in", kind: "one" },
      { name: "out", label: "out", kind: "two" },
    ],
    format: rate,
  });

export const throughputPlot = () =>
  new LinePlot({
    title: "Bytes per second",
    series: [
      { name: "bytesIn", label: "in", kind: "one" },
      { name: "bytesOut", label: "out", kind: "two" },
    ],
    format: bytes,
    isBytes: true,
  });

export const backlogPlot = () =>
  new LinePlot({ title: "Backlog", series: [{ name: "backlog", label: "not acknowledged", kind: "three" }], format: rate });
