// A namespace: its topics, with rates and backlogs, and its policies.

import { clearNamespace, unloadNamespace } from "./actions.js";
import { ZERO, rowOf } from "./broker.js";
import { deleteNamespace } from "./changing.js";
import { h } from "./dom.js";
import { address, parsed, partitionOf, topicPath } from "./names.js";
import { topicTable } from "./overview.js";
import { Tabs, backlogPlot, head, problemPanel, ratePlot } from "./pieces.js";
import { Permissions } from "./permissions.js";
import { Policies } from "./policies.js";
import { createTopic } from "./producing.js";
import { get, path } from "./rest.js";

const MOST_SINGLE = 40;
const LIST_MS = 15_000;

export class Namespace {
  constructor(place, app) {
    this.place = place;
    this.app = app;
    this.name = `${place.tenant}/${place.namespace}`;
    this.title = this.name;
    this.names = [];
    this.listed = 0;
    const soon = (done) => done && app.refreshSoon();
    this.head = head("Namespace", this.name, [
      ["Create topic", async () => this.created(await createTopic(place))],
      ["Unload", async () => soon(await unloadNamespace(place))],
      ["Clear all backlogs", async () => soon(await clearNamespace(place, app.broker.namespaces.get(this.name)?.backlog)), true],
      ["Delete", async () => (await deleteNamespace(place)) && app.go(address({ tenant: place.tenant })), true],
    ]);
    this.problem = problemPanel();
    this.tabs = new Tabs(
      [
        { name: "topics", title: "Topics", make: () => this.topicsTab() },
        { name: "policies", title: "Policies", make: () => new Policies(place, () => app.refreshSoon()) },
        { name: "permissions", title: "Permissions", make: () => new Permissions(place, () => app.refreshSoon()) },
      ],
      place.tab,
      (tab) => app.go(address({ ...place, tab }, tab === "topics" ? place.query : {})),
    );
    this.element = h("div", {}, this.head.element, this.problem.element, this.tabs.element);
  }

  created(place) {
    if (place) this.app.go(address(place));
  }

  topicsTab() {
    const plots = [ratePlot(), backlogPlot()];
    const topics = topicTable(this.app.broker, "Topics", false, this.place);
    const row = h("div", { class: "plots" }, plots.map((each) => each.element));
    return {
      element: h("div", {}, row, topics.table.element),
      refresh: async (signal) => {
        const { broker } = this.app;
        await broker.refresh(signal);
        row.hidden = broker.refusal !== null;
        if (broker.refusal) {
          topics.set(await this.single(signal));
          return;
        }
        const history = broker.histories.byName.get(this.name);
        if (history) for (const each of plots) each.draw(history);
        topics.set(await this.withIdle(broker.rows(this.place.tenant, this.place.namespace), signal));
      },
      close: () => topics.table.close(),
      focusFilter: () => topics.table.focusFilter(),
      table: topics.table,
    };
  }

  /** Rows with those of topics that have no statistics: nobody used them since the broker's start. */
  async withIdle(rows, signal) {
    if (Date.now() - this.listed > LIST_MS) {
      const { tenant, namespace } = this.place;
      this.names = await get(path("namespaces", tenant, namespace, "topics"), signal);
      this.listed = Date.now();
    }
    const known = new Set(rows.map((row) => row.full));
    return [...rows, ...[...this.grouped(this.names).values()].filter((row) => !known.has(row.full)).map((row) => ({ ...ZERO, ...row, backlog: undefined, storage: undefined }))];
  }

  /** Rows of names: the partitions of a topic are one. */
  grouped(names) {
    const { tenant, namespace } = this.place;
    const rows = new Map();
    for (const name of names) {
      const place = parsed(name);
      const { base, index } = partitionOf(place.topic);
      const full = `${place.domain}://${tenant}/${namespace}/${base}`;
      const row = rows.get(full) ?? { ...place, topic: base, full, partitions: 0, backlog: undefined };
      row.partitions += index < 0 ? 0 : 1;
      rows.set(full, row);
    }
    return rows;
  }

  /** Rows for those who may not see the statistics of all topics: names, and statistics of the first ones. */
  async single(signal) {
    const { tenant, namespace } = this.place;
    const rows = this.grouped(await get(path("namespaces", tenant, namespace, "topics"), signal));
    const wanted = [...rows.values()].slice(0, MOST_SINGLE);
    await Promise.all(
      wanted.map(async (row) => {
        const kind = row.partitions ? "partitioned-stats" : "stats";
        const stats = await get(topicPath(row, kind), signal).catch((error) => {
          if (signal.aborted) throw error;
          return null;
        });
        if (!stats) return;
        const found = rowOf(row.full, stats);
        this.app.broker.histories.of(row.full).add(Date.now(), found);
        Object.assign(row, found);
      }),
    );
    return [...rows.values()];
  }

  async refresh(signal) {
    try {
      await this.tabs.current.refresh(signal);
      this.problem.show(null);
    } catch (error) {
      if (signal.aborted || error.isStranger || error.status === 0) throw error;
      this.problem.show(error, "the namespace");
    }
  }

  show(place) {
    const isOfTopics = place.tab === undefined || place.tab === "topics";
    Object.assign(this.place, { tab: place.tab }, isOfTopics ? { query: place.query } : {}); // its parts keep this place
    this.tabs.show(place.tab);
  }

  get filterable() {
    return this.tabs.current;
  }

  close() {
    this.tabs.close();
  }
}
