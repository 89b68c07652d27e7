// The broker as a whole, and the namespaces of a tenant.

import { changeTenant, createNamespace, createTenant, deleteTenant } from "./changing.js";
import { addresses, connectBox } from "./connect.js";
import { note, problemText } from "./dialogs.js";
import { brief, bytes, count, duration, h, plural, rate } from "./dom.js";
import { address } from "./names.js";
import { backlogPlot, head, problemPanel, ratePlot, setBadges, throughputPlot, tiles } from "./pieces.js";
import { Sparkline } from "./plots.js";
import { get, getText, path } from "./rest.js";
import { Table, bar } from "./table.js";

const HEALTH_MS = 10_000;
/** Namespaces that are asked for topics before the page says that there is none. */
const MOST_NAMESPACES = 20;

/** Columns of rows that have a history: sparkline and rates. */
function rateColumns(broker, nameOf, mostBacklog) {
  const now = (row, name, otherwise) => broker.histories.byName.get(nameOf(row))?.now(name, otherwise) ?? otherwise;
  return [
    {
      title: "Last minutes",
      make: () => {
        const drawing = new Sparkline("one");
        return { element: drawing.element, draw: (row) => drawing.draw(broker.histories.byName.get(nameOf(row))?.series.in ?? []) };
      },
    },
    { title: "In /s", isNumber: true, hint: "Messages per second from producers", value: (row) => now(row, "in", row.rateIn), text: (row) => rate(now(row, "in", row.rateIn)) },
    { title: "Out /s", isNumber: true, hint: "Messages per second to consumers", value: (row) => now(row, "out", row.rateOut), text: (row) => rate(now(row, "out", row.rateOut)) },
    { title: "Backlog", isNumber: true, hint: "Entries that subscriptions have not acknowledged", kind: "medium", value: (row) => row.backlog, make: bar((row) => row.backlog, brief, mostBacklog) },
    { title: "Stored", isNumber: true, value: (row) => row.storage, text: (row) => bytes(row.storage) },
  ];
}

/** The table of topics, of one namespace or of all; its order is kept in the address of `place`. */
export function topicTable(broker, caption, isOfAll, place) {
  let most = 1;
  const table = new Table({
    caption,
    columns: [
      {
        title: "Topic",
        value: (row) => (isOfAll ? row.full.slice(row.domain.length) : row.topic).toLowerCase(),
        text: (row) => (isOfAll ? `${row.tenant}/${row.namespace}/${row.topic}` : row.topic),
        link: (row) => address({ ...row, tab: undefined, subscription: undefined }),
      },
      { title: "Kind", kind: "medium", text: (row) => [row.domain === "persistent" ? "" : "non-persistent", row.partitions ? plural(row.partitions, "partition") : ""].filter(Boolean).join(", ") },
      ...rateColumns(broker, (row) => row.full, () => most),
      { title: "Subs", kind: "narrow", isNumber: true, hint: "Subscriptions", value: (row) => row.subscriptions, text: (row) => count(row.subscriptions) },
      { title: "Prod", kind: "narrow", isNumber: true, hint: "Connected producers", value: (row) => row.producers, text: (row) => count(row.producers) },
      { title: "Cons", kind: "narrow", isNumber: true, hint: "Connected consumers", value: (row) => row.consumers, text: (row) => count(row.consumers) },
    ],
    keyOf: (row) => row.full,
    filterOf: (row) => row.full,
    order: "In /s",
    kept: place,
    empty: "No topics yet: they appear with their first producer or consumer.",
  });
  return {
    table,
    set: (rows) => {
      most = rows.reduce((found, row) => Math.max(found, row.backlog || 0), 1);
      table.set(rows);
    },
  };
}

function namespaceTable(broker, caption) {
  let most = 1;
  const table = new Table({
    caption,
    columns: [
      { title: "Namespace", value: (row) => row.name, text: (row) => row.name, link: (row) => address({ tenant: row.name.split("/")[0], namespace: row.name.split("/")[1] }) },
      ...rateColumns(broker, (row) => row.name, () => most),
      { title: "Topics", isNumber: true, hint: "Topics; all partitions of one are one", value: (row) => row.topics, text: (row) => count(row.topics) },
    ],
    keyOf: (row) => row.name,
    order: 0,
    isDescending: false,
    empty: "No namespaces",
  });
  return {
    table,
    set: (names) => {
      const rows = names.map((name) => ({ name, topics: 0, backlog: 0, storage: 0, ...broker.namespaces.get(name) }));
      most = rows.reduce((found, row) => Math.max(found, row.backlog), 1);
      table.set(rows);
    },
  };
}

function totals(made, sum, history, more = {}) {
  made.set({
    in: [`${rate(history.now("in", sum.rateIn))} /s`, `${bytes(history.now("bytesIn", sum.bytesRateIn))}/s`],
    out: [`${rate(history.now("out", sum.rateOut))} /s`, `${bytes(history.now("bytesOut", sum.bytesRateOut))}/s`],
    backlog: [brief(sum.backlog), `${brief(sum.unacked)} with consumers`],
    storage: [bytes(sum.storage), plural(sum.topics, "topic")],
    clients: [count(sum.producers + sum.consumers), `${count(sum.producers)} producing, ${count(sum.consumers)} consuming`],
    ...more,
  });
}

const TILES = [
  ["Messages in", "in"],
  ["Messages out", "out"],
  ["Backlog", "backlog"],
  ["Stored", "storage"],
  ["Clients", "clients"],
];

export class Overview {
  constructor(place, app) {
    this.app = app;
    this.title = "Cluster";
    this.head = head("Cluster", app.cluster || "Cluster", [["Create tenant", async () => app.made(await createTenant(app.cluster))]]);
    this.tiles = tiles([...TILES, ["Disk", "disk"]]);
    this.plots = [ratePlot(), throughputPlot(), backlogPlot()];
    this.topics = topicTable(app.broker, "Topics", true, place);
    this.problem = problemPanel();
    this.first = h("section", { class: "card facts-card", "aria-label": "Connect", hidden: true });
    const told = h("div", { class: "told" }, this.first, this.tiles.element, h("div", { class: "plots" }, this.plots.map((each) => each.element)), this.topics.table.element);
    this.told = told;
    this.element = h("div", {}, this.head.element, this.problem.element, told);
    this.looked = 0;
    this.disk = null;
    this.health = null;
    this.load = null;
  }

  /** Says that the broker is gone: what is shown is of before. */
  gone(text) {
    this.isGone = true;
    this.health = [text, "bad"];
    this.load = null;
    this.looked = 0;
    this.setBadges();
  }

  setBadges() {
    const { version } = this.app;
    setBadges(this.head.badges, [this.health, version ? [`version ${version}`, ""] : null, ...this.loadBadges()]);
  }

  async refresh(signal) {
    const { broker } = this.app;
    this.look(signal).catch(() => {}); // beside the rest: a check of health may take seconds; who is gone answers neither
    await broker.refresh(signal);
    if (this.isGone) {
      this.isGone = false;
      this.health = null; // it answers again: until it is known how it is
    }
    this.told.hidden = broker.refusal !== null;
    this.problem.show(broker.refusal, "statistics of all topics. Open a tenant or namespace of yours with “Go to”");
    this.setBadges();
    if (!broker.sum) return;
    totals(this.tiles, broker.sum, broker.total, this.diskTile());
    for (const each of this.plots) each.draw(broker.total);
    this.topics.set(broker.rows());
    await this.welcome(signal);
  }

  /** Shows how to connect where there is no topic. */
  async welcome(signal) {
    if (!this.first.hidden || this.app.broker.topics.size > 0 || !(await this.isEmpty(signal))) return;
    this.first.hidden = false; // and stays, while its program makes the first topic
    const urls = await addresses(signal);
    if (!this.first.childElementCount) this.first.append(h("h2", {}, "Connect a first program"), connectBox(urls));
  }

  /** Whether no namespace has a topic, also of those that the broker has not loaded since its start. */
  async isEmpty(signal) {
    if (this.hasTopics) return false;
    const listed = (...names) => get(path(...names), signal).catch(() => []);
    const tenants = (await listed("tenants")).slice(0, MOST_NAMESPACES);
    const namespaces = (await Promise.all(tenants.map((tenant) => listed("namespaces", tenant)))).flat().slice(0, MOST_NAMESPACES);
    const lists = await Promise.all(namespaces.map((name) => listed("namespaces", ...name.split("/"), "topics")));
    this.hasTopics = lists.some((names) => names.length > 0);
    return !this.hasTopics && namespaces.length > 0;
  }

  loadBadges() {
    if (!this.load) return [];
    const { startTimestamp, memory, cpu } = this.load;
    return [
      [`up ${duration((Date.now() - startTimestamp) / 1000)}`, ""],
      [`memory ${bytes(memory.usage * 1024 * 1024)}`, ""],
      [`processor ${Math.round(cpu.usage)} %`, ""],
    ];
  }

  diskTile() {
    if (!this.disk || !this.disk.sizeBytes) return {};
    const { sizeBytes, freeBytes } = this.disk;
    return { disk: [bytes(freeBytes), `free of ${bytes(sizeBytes)}, ${Math.round(100 - (100 * freeBytes) / sizeBytes)} % used`] };
  }

  /** Asks for health and disk, now and then. */
  async look(signal) {
    if (Date.now() - this.looked < HEALTH_MS || this.isLooking === signal) return;
    this.isLooking = signal;
    const begin = Date.now();
    const quiet = (call) =>
      call.catch((error) => {
        if (signal.aborted) throw error;
        return error;
      });
    const [health, disk, load] = await Promise.all([
      quiet(getText(path("brokers", "health"), signal)),
      quiet(get(path("broker-stats", "disk"), signal)),
      quiet(get(path("broker-stats", "load-report"), signal)),
    ]);
    this.disk = disk instanceof Error ? null : disk;
    this.load = load instanceof Error ? null : load;
    this.isLooking = null;
    if (health.status === 0 || signal.aborted) return;
    this.looked = begin;
    this.isGone = false;
    if (typeof health === "string") this.health = ["healthy", "good"];
    else this.health = health.isRefusal ? null : [health.message, "bad"];
    this.setBadges();
    if (this.app.broker.sum) this.tiles.set(this.diskTile());
  }

  get filterable() {
    return this.topics.table;
  }

  close() {
    this.topics.table.close();
  }
}

export class Tenant {
  constructor(place, app) {
    this.place = place;
    this.app = app;
    this.title = place.tenant;
    this.head = head("Tenant", place.tenant, [
      ["Create namespace", async () => app.made(await createNamespace(place))],
      ["Change", () => this.change()],
      ["Delete", async () => (await deleteTenant(place)) && app.made({}), true],
    ]);
    this.problem = problemPanel();
    this.statistics = problemPanel();
    this.tiles = tiles(TILES);
    this.namespaces = namespaceTable(app.broker, "Namespaces");
    this.element = h("div", {}, this.head.element, this.problem.element, this.tiles.element, this.namespaces.table.element);
  }

  async refresh(signal) {
    const { broker } = this.app;
    await broker.refresh(signal);
    this.tiles.element.hidden = broker.refusal !== null;
    try {
      this.namespaces.set(await get(path("namespaces", this.place.tenant), signal));
      this.problem.show(null);
    } catch (error) {
      if (signal.aborted) throw error;
      this.problem.show(error, "the tenant's namespaces");
    }
    if (!broker.sum) return;
    const history = { now: (name, otherwise) => this.sumOf(name) ?? otherwise };
    totals(this.tiles, broker.tenant(this.place.tenant), history);
  }

  async change() {
    try {
      await changeTenant(this.place, await get(path("tenants", this.place.tenant)));
    } catch (error) {
      note(problemText(error), "problem");
    }
  }

  /** Sum of a series' latest values over the tenant's namespaces. */
  sumOf(name) {
    let sum;
    for (const namespace of this.app.broker.namespaces.keys()) {
      if (namespace.split("/")[0] !== this.place.tenant) continue;
      const value = this.app.broker.histories.byName.get(namespace)?.now(name);
      if (value !== undefined) sum = (sum ?? 0) + value;
    }
    return sum;
  }

  close() {
    this.namespaces.table.close();
  }
}
