// Policies in effect, the level that each comes from, and the command that sets it.

import { changePolicy, levelOf, removePolicy } from "./changing.js";
import { shellWord } from "./commands.js";
import { bytes, count, h, setText, words } from "./dom.js";
import { topicPath } from "./names.js";
import { problemPanel } from "./pieces.js";
import { get, path } from "./rest.js";

const LEVELS = { broker: "broker", namespace: "namespace", topicOfAllClusters: "topic, all clusters", topic: "topic" };
let table = null;

/** Old names of members, beside which the new ones stand. */
const OLD_NAMES = { limit: "limitSize" };

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

function commandOf(row, place) {
  const level = place.topic === undefined ? row.namespace : row.topic;
  if (!level || !level.command) return "";
  const name = place.topic === undefined ? `${place.tenant}/${place.namespace}` : `${place.domain === "persistent" ? "" : "non-persistent://"}${place.tenant}/${place.namespace}/${place.topic}`;
  return `spark-pulsar admin ${place.topic === undefined ? "namespaces" : "topics"} set-${level.command} ${shellWord(name)} …`;
}

export class Policies {
  /** `changed()` is called when a policy was changed. */
  constructor(place, changed = () => {}) {
    this.place = place;
    this.changed = changed;
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
      const found = await get(url, signal).catch((error) => {
        if (error.status !== 404 && error.status !== 405) throw error;
        return this.ofEach(signal);
      });
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

  /** The policies that are set here, of a broker without `appliedPolicies`: those of Apache Pulsar. */
  async ofEach(signal) {
    const { place } = this;
    const isOfTopic = place.topic !== undefined;
    const document = isOfTopic ? null : await get(path("namespaces", place.tenant, place.namespace), signal);
    const level = isOfTopic ? "topic" : "namespace";
    const values = await Promise.all(
      table.map(async (row) => {
        if (!isOfTopic) return document[row.name];
        if (!row.topic) return undefined;
        return get(topicPath(place, ...row.topic.path.split("/")), signal).catch((error) => {
          if (signal.aborted || error.status === 0) throw error;
          return undefined;
        });
      }),
    );
    const isSet = (value) => value !== undefined && value !== null && JSON.stringify(value) !== "{}";
    return Object.fromEntries(table.map((row, index) => [row.name, isSet(values[index]) ? { value: values[index], level, values: { [level]: values[index] } } : { value: null, level: "broker", values: {} }]));
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
      h("td", { class: "others" }, this.actions(row, found), others.length ? others.map(([level, value]) => h("p", {}, h("span", { class: "hint" }, LEVELS[level] ?? level), ` ${lines(value).join(", ")}`)) : "–"),
    );
  }

  /** Buttons that set a policy here, and take away one that is set here. */
  actions(row, found) {
    const { place } = this;
    if (!levelOf(row, place)) return null;
    const own = place.topic === undefined ? "namespace" : "topic";
    const title = words(row.name);
    const run = async (asked) => (await asked) && this.changed();
    const isSet = found.values[own] !== undefined && row.isRemovable;
    return h(
      "div",
      { class: "actions" },
      h("button", { type: "button", class: "quiet", "aria-label": `Set ${title}`, onclick: () => run(changePolicy(place, row, found.values[own] ?? found.value, title)) }, "Set …"),
      isSet ? h("button", { type: "button", class: "quiet danger-quiet", "aria-label": `Remove ${title}`, onclick: () => run(removePolicy(place, row, title)) }, "Remove") : null,
    );
  }

  focusFilter() {
    this.filter.focus();
    return true;
  }
}
