// A topic: its rates, subscriptions, producers and partitions, its messages, schema and policies.

import { compactTopic, deleteTopic, expire, terminateTopic, unloadTopic } from "./actions.js";
import { rowOf } from "./broker.js";
import { brief, bytes, count, duration, h, plural, rate, when } from "./dom.js";
import { Messages } from "./messages.js";
import { address, fullName, partitionOf, topicPath } from "./names.js";
import { Tabs, backlogPlot, facts, head, problemPanel, ratePlot, setBadges, throughputPlot, tiles } from "./pieces.js";
import { Permissions } from "./permissions.js";
import { Policies } from "./policies.js";
import { produce } from "./producing.js";
import { get, path } from "./rest.js";
import { Table, bar } from "./table.js";
import { Why } from "./why.js";

/** The statistics of a topic, of all partitions together for a partitioned one. */
export async function statsOf(place, partitions, signal) {
  return get(topicPath(place, partitions ? "partitioned-stats" : "stats"), signal);
}

/** The number of partitions of a topic; 0 when it is not partitioned. */
export async function partitionsOf(place, signal) {
  return (await get(topicPath(place, "partitions"), signal)).partitions;
}

function subscriptionTable(place) {
  let most = 1;
  const table = new Table({
    caption: "Subscriptions",
    columns: [
      { title: "Subscription", value: (row) => row.name, text: (row) => row.name, link: (row) => address({ ...place, tab: undefined, subscription: row.name }) },
      { title: "Type", kind: "medium", text: (row) => [row.type, row.isDurable === false ? "reader" : ""].filter((each) => each && each !== "None").join(", ") || "not connected" },
      { title: "Out /s", isNumber: true, value: (row) => row.rate, text: (row) => rate(row.rate) },
      { title: "Backlog", isNumber: true, kind: "medium", value: (row) => row.msgBacklog, make: bar((row) => row.msgBacklog, brief, () => most) },
      { title: "Unacked", isNumber: true, hint: "Delivered, not acknowledged", value: (row) => row.unackedMessages, text: (row) => brief(row.unackedMessages) },
      { title: "Delayed", isNumber: true, value: (row) => row.msgDelayed, text: (row) => brief(row.msgDelayed) },
      { title: "Consumers", isNumber: true, value: (row) => row.consumers.length, text: (row) => count(row.consumers.length) },
      { title: "Last acknowledged", kind: "time", value: (row) => row.lastAckedTimestamp, text: (row) => when(row.lastAckedTimestamp) },
    ],
    keyOf: (row) => row.name,
    filterOf: (row) => row.name,
    order: 0,
    isDescending: false,
    empty: "No subscriptions: nothing is kept for anybody, but for what retention keeps. “Diagnosis” says more.",
  });
  return {
    table,
    set: (rows) => {
      most = rows.reduce((found, row) => Math.max(found, row.msgBacklog), 1);
      table.set(rows);
    },
  };
}

const producerTable = () =>
  new Table({
    caption: "Producers",
    columns: [
      { title: "Producer", value: (row) => row.producerName, text: (row) => row.producerName || "–" },
      { title: "Access", text: (row) => row.accessMode },
      { title: "In /s", isNumber: true, hint: "As of the broker's last interval", value: (row) => row.msgRateIn, text: (row) => rate(row.msgRateIn) },
      { title: "Address", kind: "medium", text: (row) => row.address || "–" },
      { title: "Client", kind: "medium", text: (row) => row.clientVersion || "–" },
      { title: "Since", kind: "time", text: (row) => when(Date.parse(row.connectedSince)) },
    ],
    keyOf: (row) => `${row.address}/${row.producerId}/${row.producerName}`,
    order: 0,
    isDescending: false,
    empty: "No producers are connected.",
  });

const partitionTable = (place) =>
  new Table({
    caption: "Partitions",
    columns: [
      { title: "Partition", value: (row) => row.index, text: (row) => String(row.index), link: (row) => address({ ...place, tab: undefined, topic: `${place.topic}-partition-${row.index}` }) },
      { title: "Messages in", isNumber: true, value: (row) => row.in, text: (row) => brief(row.in) },
      { title: "Backlog", isNumber: true, value: (row) => row.backlog, text: (row) => brief(row.backlog) },
      { title: "Stored", isNumber: true, value: (row) => row.storage, text: (row) => bytes(row.storage) },
      { title: "Producers", isNumber: true, value: (row) => row.producers, text: (row) => count(row.producers) },
      { title: "Consumers", isNumber: true, value: (row) => row.consumers, text: (row) => count(row.consumers) },
    ],
    keyOf: (row) => row.index,
    order: 0,
    isDescending: false,
  });

class Schema {
  constructor(place) {
    this.place = place;
    this.problem = problemPanel();
    this.list = h("div", { class: "schemas" });
    this.element = h("div", {}, this.problem.element, this.list);
  }

  async refresh(signal) {
    const { tenant, namespace, topic } = this.place;
    try {
      const found = await get(path("schemas", tenant, namespace, partitionOf(topic).base, "schemas"), signal);
      const schemas = found.getSchemaResponses.toReversed();
      const text = JSON.stringify(schemas);
      if (text !== this.text) {
        this.text = text;
        const none = h("p", { class: "card nothing" }, "No schema: messages are bytes.");
        this.list.replaceChildren(...(schemas.length ? schemas.map((each) => this.shown(each)) : [none]));
      }
      this.problem.show(null);
    } catch (error) {
      if (signal.aborted) throw error;
      this.problem.show(error, "schemas");
    }
  }

  shown(each) {
    let text = each.data;
    try {
      text = JSON.stringify(JSON.parse(each.data), null, 2);
    } catch {
      // a primitive has no definition
    }
    return h(
      "section",
      { class: "card messages-card" },
      h("header", { class: "table-head" }, h("h2", {}, `Version ${each.version}`), h("span", { class: "badge" }, each.type), h("span", { class: "tally" }, when(each.timestamp))),
      text ? h("pre", { tabindex: "0" }, text) : h("p", { class: "hint" }, "A primitive type, without a definition."),
    );
  }
}

export class Topic {
  constructor(place, app) {
    this.place = { ...place, tab: undefined, subscription: undefined };
    this.app = app;
    this.title = place.topic;
    this.full = fullName(place);
    this.partitions = null;
    this.element = h("div", {});
    this.problem = problemPanel();
    this.element.append(this.problem.element);
    this.tab = place.tab;
  }

  build() {
    const { place, app } = this;
    const soon = (done) => done && app.refreshSoon();
    const remove = async () => {
      if (await deleteTopic(place, this.partitions > 0)) app.go(address({ tenant: place.tenant, namespace: place.namespace }));
    };
    const isStored = place.domain === "persistent";
    this.head = head(isStored ? "Topic" : "Non-persistent topic", place.topic, [
      ["Produce", async () => soon(await produce(place))],
      ["Unload", async () => soon(await unloadTopic(place))],
      ...(isStored
        ? [
            ["Compact", async () => soon(await compactTopic(place))],
            ["Expire messages", async () => soon(await expire(place)), true],
            ["Terminate", async () => soon(await terminateTopic(place, this.partitions > 0)), true],
          ]
        : []),
      ["Delete", remove, true],
    ]);
    const tabs = [{ name: "now", title: "Now", make: () => this.now() }];
    if (isStored) tabs.push({ name: "messages", title: "Messages", make: () => new Messages(place, this.partitions) });
    tabs.push({ name: "why", title: "Diagnosis", make: () => new Why(place) });
    tabs.push({ name: "schema", title: "Schema", make: () => new Schema(place) }, { name: "policies", title: "Policies", make: () => new Policies(place, () => app.refreshSoon()) }, { name: "permissions", title: "Permissions", make: () => new Permissions(place, () => app.refreshSoon()) });
    this.tabs = new Tabs(tabs, this.tab, (tab) => app.go(tabAddress(place, tab)));
    this.element.replaceChildren(this.head.element, this.problem.element, this.tabs.element);
  }

  now() {
    const told = tiles([
      ["Messages in", "in"],
      ["Messages out", "out"],
      ["Backlog", "backlog"],
      ["Stored", "storage"],
    ]);
    const plots = [ratePlot(), throughputPlot(), backlogPlot()];
    const subscriptions = subscriptionTable(this.place);
    const producers = producerTable();
    const partitions = this.partitions ? partitionTable(this.place) : null;
    const more = facts("More");
    const rates = new Map();
    const set = (stats, history) => {
      const row = rowOf(this.full, stats);
      history.add(Date.now(), row);
      for (const each of plots) each.draw(history);
      told.set({
        in: [`${rate(history.now("in", row.rateIn))} /s`, `${brief(row.in)} since the broker's start`],
        out: [`${rate(history.now("out", row.rateOut))} /s`, `${brief(row.out)} since the broker's start`],
        backlog: [brief(row.backlog), stats.oldestBacklogMessageAgeSeconds > 0 ? `the oldest is ${duration(stats.oldestBacklogMessageAgeSeconds)} old` : plural(row.subscriptions, "subscription")],
        storage: [bytes(stats.storageSize), row.in ? `${bytes(row.bytesIn / row.in)} per message` : ""],
      });
      subscriptions.set(Object.entries(stats.subscriptions).map(([name, each]) => ({ ...each, name, rate: rateOf(rates, name, each) })));
      producers.set(stats.publishers);
      partitions?.set(Object.entries(stats.partitions || {}).map(([name, each]) => ({ index: Number(name.slice(name.lastIndexOf("-") + 1)), ...rowOf(name, each) })));
      more.set([
        ["Full name", this.full],
        ["Created", when(stats.topicCreationTimeStamp)],
        ["Last published", when(stats.lastPublishTimeStamp)],
        ["De-duplication", stats.deduplicationStatus ?? "–"],
        ["Backlog quota", stats.backlogQuotaLimitSize > 0 ? bytes(stats.backlogQuotaLimitSize) : "none"],
        ["Producers slowed down", plural(stats.publishRateLimitedTimes ?? 0, "time")],
      ]);
    };
    const tables = h("div", {}, subscriptions.table.element, partitions?.element ?? [], producers.element, more.element);
    return {
      element: h("div", {}, told.element, h("div", { class: "plots" }, plots.map((each) => each.element)), tables),
      refresh: (signal) => this.readStats(signal, set),
      focusFilter: () => subscriptions.table.focusFilter(),
      table: subscriptions.table,
      close: () => [subscriptions.table, producers, partitions].forEach((each) => each?.close()),
    };
  }

  async readStats(signal, set) {
    const stats = await statsOf(this.place, this.partitions, signal);
    set(stats, this.app.broker.histories.of(this.full));
    setBadges(this.head.badges, [this.partitions ? [plural(this.partitions, "partition"), ""] : null, stats.readOnlyReason ? [`read-only: ${stats.readOnlyReason}`, "bad"] : null]);
  }

  async refresh(signal) {
    try {
      if (this.partitions === null) {
        this.partitions = await partitionsOf(this.place, signal);
        this.build();
      }
      await this.tabs.current.refresh?.(signal);
      this.problem.show(null);
    } catch (error) {
      if (signal.aborted || error.isStranger || error.status === 0) throw error;
      this.problem.show(error, "the topic");
      if (!this.tabs) this.element.replaceChildren(head("Topic", this.place.topic).element, this.problem.element);
    }
  }

  show(place) {
    this.tab = place.tab;
    showTab(this, place);
  }

  get filterable() {
    return this.tabs?.current;
  }

  close() {
    this.tabs?.close();
  }
}

/** The address of a tab of a view; messages keep their query. */
export const tabAddress = (place, tab) => address({ ...place, tab: tab === "now" ? undefined : tab }, tab === "messages" ? place.query : {});

/** Shows the tab of a view that an address names, and messages as its query has them. */
export function showTab(view, { tab, query }) {
  if (tab === "messages") view.place.query = query;
  view.tabs?.show(tab);
  if (tab === "messages") view.tabs?.current.showQuery?.(query);
}

/** Messages per second to a subscription since the last look, of its counter. */
export function rateOf(rates, name, stats) {
  const now = { time: Date.now(), out: stats.msgOutCounter };
  const before = rates.get(name);
  if (before && now.time - before.time < 500) return before.rate;
  const grown = before ? now.out - before.out : -1;
  now.rate = grown >= 0 ? (grown * 1000) / (now.time - before.time) : stats.msgRateOut;
  rates.set(name, now);
  return now.rate;
}

