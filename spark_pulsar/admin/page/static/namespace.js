// A namespace: its topics, with rates and backlogs, and its policies.

import { clearNamespace, unloadNamespace } from "./actions.js";
import { rowOf } from "./broker.js";
import { h } from "./dom.js";
import { address, parsed, partitionOf, topicPath } from "./names.js";
import { topicTable } from "./overview.js";
import { Tabs, backlogPlot, head, problemPanel, ratePlot } from "./pieces.js";
import { Policies } from "./policies.js";
import { get, path } from "./rest.js";

const MOST_SINGLE = 40;

export class Namespace {
  constructor(place, app) {
    this.place = place;
    this.app = app;
    this.name = `${place.tenant}/${place.namespace}`;
    this.title = this.name;
    const soon = (done) => done && app.refreshSoon();
    this.head = head("Namespace", this.name, [
      ["Unload", async () => soon(await unloadNamespace(place))],
      ["Clear all backlogs", async () => soon(await clearNamespace(place, app.broker.namespaces.get(this.name)?.backlog)), true],
    ]);
    this.problem = problemPanel();
    this.tabs = new Tabs(
      [
        { name: "topics", title: "Topics", make: () => this.topicsTab() },
        { name: "policies", title: "Policies", make: () => new Policies(place) },
      ],
      place.tab,
      (tab) => app.go(address({ ...place, tab })),
    );
    this.element = h("div", {}, this.head.element, this.problem.element, this.tabs.element);
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
        topics.set(broker.rows(this.place.tenant, this.place.namespace));
      },
      close: () => topics.table.close(),
      focusFilter: () => topics.table.focusFilter(),
      table: topics.table,
    };
  }

  /** Rows for those who may not see the statistics of all topics: names, and statistics of the first ones. */
  async single(signal) {
    const { tenant, namespace } = this.place;
    const names = await get(path("namespaces", tenant, namespace, "topics"), signal);
    const rows = new Map();
    for (const name of names) {
      const place = parsed(name);
      const { base, index } = partitionOf(place.topic);
      const full = `${place.domain}://${tenant}/${namespace}/${base}`;
      const row = rows.get(full) ?? { ...place, topic: base, full, partitions: 0, backlog: undefined };
      row.partitions += index < 0 ? 0 : 1;
      rows.set(full, row);
    }
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
    this.tabs.show(place.tab);
    this.place = place;
  }

  get filterable() {
    return this.tabs.current;
  }

  close() {
    this.tabs.close();
  }
}
