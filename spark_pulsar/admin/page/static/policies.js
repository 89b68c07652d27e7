// Policies in effect, the level that each comes from, and the command that sets it.

import { bytes, count, h, setText } from "./dom.js";
import { topicPath } from "./names.js";
import { problemPanel } from "./pieces.js";
import { get, path } from "./rest.js";

const LEVELS = { broker: "broker", namespace: "namespace", topicOfAllClusters: "topic, all clusters", topic: "topic" };
let table = null;

/** Old names of members, beside which the new ones stand. */
const OLD_NAMES = { limit: "limitSize" };

const words = (name) =>
  name
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .replaceAll("_", " ")
    .toLowerCase()
    .replace(/\bttl\b/, "TTL")
    .replace(/\bmb\b/, "MB");

function simple(value) {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.length ? value.map(simple).join(", ") : "none";
  if (typeof value === "number") return count(value);
  return String(value);
}

/** A value in lines: `["retention time in minutes 180", …]`. */
export function lines(value) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [simple(value)];
  const members = Object.entries(value).filter(([name]) => !(OLD_NAMES[name] in value));
  const found = members.flatMap(([name, each]) => {
    if (typeof each === "object" && each !== null && !Array.isArray(each)) return [`${words(name)}: ${lines(each).join(", ")}`];
    const text = each === -1 ? "no limit" : name === "limitSize" ? bytes(each) : simple(each);
    return [`${words(name)} ${text}`];
  });
  return found.length ? found : ["none"];
}

const told = (value) => lines(value).map((line) => h("p", {}, line));

function quoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

function commandOf(row, place) {
  const level = place.topic === undefined ? row.namespace : row.topic;
  if (!level || !level.command) return "";
  const name = place.topic === undefined ? `${place.tenant}/${place.namespace}` : `${place.domain === "persistent" ? "" : "non-persistent://"}${place.tenant}/${place.namespace}/${place.topic}`;
  return `spark-pulsar admin ${place.topic === undefined ? "namespaces" : "topics"} set-${level.command} ${quoted(name)} …`;
}

export class Policies {
  constructor(place) {
    this.place = place;
    this.problem = problemPanel();
    this.own = h("input", { type: "checkbox", id: "own-only" });
    this.own.addEventListener("change", () => this.draw());
    this.filter = h("input", { type: "search", class: "filter", placeholder: "Filter", "aria-label": "Filter policies", "aria-keyshortcuts": "/" });
    this.filter.addEventListener("input", () => this.draw());
    this.tally = h("span", { class: "tally", role: "status" });
    this.body = h("tbody", {});
    const titles = ["Policy", "Value in effect", "Comes from", "Also set"].map((title) => h("th", { scope: "col" }, title));
    this.element = h(
      "section",
      { class: "card table-card policies", "aria-label": "Policies" },
      h(
        "header",
        { class: "table-head" },
        h("h2", {}, "Policies"),
        this.tally,
        h("label", { class: "check", for: "own-only" }, this.own, "set here or above only"),
        h("div", { class: "filter-box" }, this.filter, h("kbd", { "aria-hidden": "true" }, "/")),
      ),
      this.problem.element,
      h("div", { class: "scroller wide-cells" }, h("table", {}, h("caption", { class: "hidden" }, "Policies"), h("thead", {}, h("tr", {}, titles)), this.body)),
    );
    this.found = null;
  }

  async refresh(signal) {
    const place = this.place;
    const url = place.topic === undefined ? path("namespaces", place.tenant, place.namespace, "appliedPolicies") : topicPath(place, "appliedPolicies");
    try {
      table ??= await get("/page/policies.json", signal);
      const found = await get(url, signal);
      const text = JSON.stringify(found);
      if (text !== this.text) {
        this.text = text;
        this.found = found;
        this.draw();
      }
      this.problem.show(null);
    } catch (error) {
      if (signal.aborted) throw error;
      this.problem.show(error, "policies");
    }
  }

  draw() {
    if (!this.found) return;
    const wanted = this.filter.value.trim().toLowerCase();
    const rows = table.filter((row) => this.found[row.name] !== undefined);
    const shownRows = rows.filter((row) => {
      const isSet = this.found[row.name].level !== "broker";
      return (isSet || !this.own.checked) && `${words(row.name)} ${row.name} ${row.meaning}`.toLowerCase().includes(wanted);
    });
    setText(this.tally, shownRows.length === rows.length ? String(rows.length) : `${shownRows.length} of ${rows.length}`);
    this.body.replaceChildren(...shownRows.map((row) => this.row(row, this.found[row.name])));
  }

  row(row, found) {
    const others = Object.entries(found.values).filter(([level]) => level !== found.level);
    const keys = row.keys.length && found.level === "broker" ? h("span", { class: "hint" }, row.keys.join(", ")) : null;
    const command = commandOf(row, this.place);
    return h(
      "tr",
      { "data-policy": row.name },
      h("th", { scope: "row" }, h("span", { class: "policy-name" }, words(row.name)), h("span", { class: "hint" }, row.meaning), row.withoutEffect ? h("span", { class: "hint no-effect" }, `Kept, without effect here: ${row.withoutEffect}`) : null, command ? h("code", { class: "command", title: command }, command) : null),
      h("td", { class: "policy-value" }, told(found.value)),
      h("td", {}, h("span", { class: `badge level-${found.level}` }, LEVELS[found.level] ?? found.level), keys),
      h("td", { class: "others" }, others.length ? others.map(([level, value]) => h("p", {}, h("span", { class: "hint" }, LEVELS[level] ?? level), ` ${lines(value).join(", ")}`)) : "–"),
    );
  }

  focusFilter() {
    this.filter.focus();
    return true;
  }
}
