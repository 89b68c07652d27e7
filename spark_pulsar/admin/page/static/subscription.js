// A subscription: its rate and backlog, its consumers, the messages that come next, and what can be done with it.

import { clearBacklog, deleteSubscription, expire, resetCursor, skip } from "./actions.js";
import { brief, bytes, count, duration, h, plural, rate, when } from "./dom.js";
import { History } from "./history.js";
import { Messages } from "./messages.js";
import { address } from "./names.js";
import { Tabs, backlogPlot, facts, head, problemPanel, setBadges, tiles } from "./pieces.js";
import { LinePlot } from "./plots.js";
import { Table } from "./table.js";
import { partitionsOf, showTab, statsOf, tabAddress } from "./topic.js";
import { Why } from "./why.js";

const consumerTable = () =>
  new Table({
    caption: "Consumers",
    columns: [
      { title: "Consumer", value: (row) => row.consumerName, text: (row) => row.consumerName || "–" },
      { title: "Messages out", isNumber: true, value: (row) => row.msgOutCounter, text: (row) => brief(row.msgOutCounter) },
      { title: "Unacked", isNumber: true, value: (row) => row.unackedMessages, text: (row) => brief(row.unackedMessages) },
      { title: "Permits", isNumber: true, hint: "Messages that it may still be sent", value: (row) => row.availablePermits, text: (row) => brief(row.availablePermits) },
      { title: "State", hint: "Blocked: it has too many messages that it has not acknowledged", text: (row) => (row.blockedConsumerOnUnackedMsgs ? "blocked" : "–") },
      { title: "Address", kind: "medium", text: (row) => row.address || "–" },
      { title: "Client", kind: "medium", text: (row) => row.clientVersion || "–" },
      { title: "Since", kind: "time", text: (row) => when(Date.parse(row.connectedSince)) },
    ],
    keyOf: (row) => `${row.address}/${row.consumerName}/${row.connectedSince}`,
    order: 0,
    isDescending: false,
    empty: "No consumers are connected: the backlog waits for them.",
  });

export class Subscription {
  constructor(place, app) {
    this.place = { ...place, tab: undefined };
    this.app = app;
    this.title = place.subscription;
    this.tab = place.tab;
    this.history = new History();
    this.partitions = null;
    this.backlog = 0;
    this.problem = problemPanel();
    this.element = h("div", {}, this.problem.element);
  }

  build() {
    const { place, app } = this;
    const then = (action) => async () => {
      if (await action()) app.refreshSoon();
    };
    const remove = async () => {
      if (await deleteSubscription(place, this.backlog)) app.go(address({ ...place, subscription: undefined }));
    };
    const isStored = place.domain === "persistent";
    const moves = [
      ...(this.partitions ? [] : [["Skip", then(() => skip(place, this.backlog)), true]]),
      ["Clear backlog", then(() => clearBacklog(place, this.backlog)), true],
      ["Reset cursor", then(() => resetCursor(place, this.partitions > 0)), true],
      ["Expire messages", then(() => expire(place)), true],
    ];
    this.head = head("Subscription", place.subscription, [...(isStored ? moves : []), ["Delete", remove, true]]);
    const tabs = [{ name: "now", title: "Now", make: () => this.now() }];
    if (isStored) tabs.push({ name: "messages", title: "Peek at messages", make: () => new Messages(place, this.partitions) });
    this.tabs = new Tabs(tabs, this.tab, (tab) => app.go(tabAddress(place, tab)));
    this.element.replaceChildren(this.head.element, this.problem.element, this.tabs.element);
  }

  now() {
    const told = tiles([
      ["Backlog", "backlog"],
      ["Messages out", "out"],
      ["Not acknowledged", "unacked"],
      ["Consumers", "consumers"],
    ]);
    const out = new LinePlot({ title: "Messages out per second", series: [{ name: "out", label: "out", kind: "two" }], format: rate });
    const plots = [out, backlogPlot()];
    const consumers = consumerTable();
    const more = facts("More");
    const why = new Why(this.place);
    const set = (stats) => {
      const { history } = this;
      history.add(Date.now(), { in: 0, out: stats.msgOutCounter, bytesIn: 0, bytesOut: stats.bytesOutCounter, backlog: stats.msgBacklog, storage: 0 });
      for (const each of plots) each.draw(history);
      told.set({
        backlog: [brief(stats.msgBacklog), stats.backlogSize >= 0 ? bytes(stats.backlogSize) : ""],
        out: [`${rate(history.now("out", stats.msgRateOut))} /s`, `${brief(stats.msgOutCounter)} since the broker's start`],
        unacked: [brief(stats.unackedMessages), stats.blockedSubscriptionOnUnackedMsgs ? "blocked: too many" : "delivered, not acknowledged"],
        consumers: [count(stats.consumers.length), stats.activeConsumerName ? `active: ${stats.activeConsumerName}` : ""],
      });
      consumers.set(stats.consumers);
      const held = Object.entries(stats.subscriptionProperties || {}).map(([name, value]) => [`Property ${name}`, value]);
      more.set([
        ["Type", stats.type && stats.type !== "None" ? stats.type : "not connected"],
        ["Delayed", count(stats.msgDelayed)],
        ["To be sent again", count(stats.msgInReplay)],
        ["Expired", count(stats.totalMsgExpired)],
        ["Gaps in what is acknowledged", count(stats.nonContiguousDeletedMessagesRanges)],
        ["Last acknowledged", when(stats.lastAckedTimestamp)],
        ["Last sent", when(stats.lastConsumedTimestamp)],
        ...held,
      ]);
    };
    return {
      element: h("div", {}, told.element, why.element, h("div", { class: "plots" }, plots.map((each) => each.element)), consumers.element, more.element),
      refresh: async (signal) => set(await this.stats(signal)),
      table: consumers,
      close: () => {
        consumers.close();
        why.close();
      },
    };
  }

  async stats(signal) {
    const stats = await statsOf(this.place, this.partitions, signal);
    const found = stats.subscriptions[this.place.subscription];
    if (!found) throw Object.assign(new Error("There is no subscription of this name (any more)."), { status: 404 });
    this.backlog = found.msgBacklog;
    const age = stats.oldestBacklogMessageSubscriptionName === this.place.subscription ? stats.oldestBacklogMessageAgeSeconds : 0;
    setBadges(this.head.badges, [
      found.consumers.length ? ["connected", "good"] : ["no consumer", found.msgBacklog ? "warn" : ""],
      this.partitions ? [`of ${plural(this.partitions, "partition")}`, ""] : null,
      age > 0 ? [`oldest message ${duration(age)} old`, ""] : null,
    ]);
    return found;
  }

  async refresh(signal) {
    try {
      if (this.partitions === null) {
        this.partitions = await partitionsOf(this.place, signal);
        this.build();
      }
      if (this.tabs.current.refresh) await this.tabs.current.refresh(signal);
      else await this.stats(signal);
      this.problem.show(null);
    } catch (error) {
      if (signal.aborted || error.isStranger || error.status === 0) throw error;
      this.problem.show(error, "the subscription");
      if (!this.tabs) this.element.replaceChildren(head("Subscription", this.place.subscription).element, this.problem.element);
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
