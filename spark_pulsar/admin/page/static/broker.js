// The statistics of the whole broker in one answer, as rows of topics and sums of namespaces, tenants and the broker.

import { Histories, History } from "./history.js";
import { parsed, partitionOf } from "./names.js";
import { get, path } from "./rest.js";

export const ZERO = { in: 0, out: 0, bytesIn: 0, bytesOut: 0, backlog: 0, storage: 0, topics: 0, subscriptions: 0, producers: 0, consumers: 0, unacked: 0, rateIn: 0, rateOut: 0, bytesRateIn: 0, bytesRateOut: 0 };
const SUMMED = Object.keys(ZERO);

const add = (total, row) => {
  for (const name of SUMMED) total[name] += row[name];
};

/** Makes the row of a topic of its statistics, in the short form (of all topics) or the long one (of a topic). */
export function rowOf(full, stats) {
  let [backlog, consumers, unacked, subscriptions] = [0, 0, 0, 0];
  for (const each of Object.values(stats.subscriptions || {})) {
    subscriptions += 1;
    backlog += each.msgBacklog;
    consumers += each.consumers.length;
    unacked += each.unackedMessages ?? 0;
  }
  return {
    full,
    in: stats.msgInCount ?? stats.msgInCounter,
    out: stats.msgOutCount ?? stats.msgOutCounter,
    bytesIn: stats.bytesInCount ?? stats.bytesInCounter,
    bytesOut: stats.bytesOutCount ?? stats.bytesOutCounter,
    rateIn: stats.msgRateIn,
    rateOut: stats.msgRateOut,
    bytesRateIn: stats.msgThroughputIn,
    bytesRateOut: stats.msgThroughputOut,
    storage: stats.storageSize,
    topics: 1,
    producers: stats.producerCount ?? (stats.publishers || []).length,
    backlog,
    consumers,
    unacked,
    subscriptions,
  };
}

export class Broker {
  constructor() {
    this.total = new History();
    this.histories = new Histories();
    this.sum = null;
    this.topics = new Map();
    this.namespaces = new Map();
    /** The refusal of the statistics of all topics, for roles that are no super user. */
    this.refusal = null;
  }

  /** Asks for the statistics of all topics. */
  async refresh(signal) {
    let answer;
    try {
      answer = await get(path("broker-stats", "topics"), signal);
    } catch (error) {
      if (!error.isRefusal || error.isStranger) throw error;
      this.refusal = error;
      return;
    }
    this.refusal = null;
    this.take(answer, Date.now());
  }

  take(answer, time) {
    const topics = new Map();
    const namespaces = new Map();
    const sum = { ...ZERO };
    for (const [namespace, bundles] of Object.entries(answer)) {
      const ofNamespace = { ...ZERO };
      for (const domains of Object.values(bundles)) {
        for (const named of Object.values(domains)) {
          for (const [full, stats] of Object.entries(named)) {
            const row = rowOf(full, stats);
            if (partitionOf(full).index > 0) row.topics = 0; // partitions are one topic
            add(ofNamespace, row);
            this.group(topics, row);
          }
        }
      }
      add(sum, ofNamespace);
      namespaces.set(namespace, ofNamespace);
      this.histories.of(namespace).add(time, ofNamespace);
    }
    for (const [full, row] of topics) this.histories.of(full).add(time, row);
    this.histories.keepOnly(new Set([...topics.keys(), ...namespaces.keys()]));
    this.total.add(time, sum);
    Object.assign(this, { topics, namespaces, sum });
  }

  /** Adds a row to the table; partitions of a topic are one row. */
  group(topics, row) {
    const place = parsed(row.full);
    const { base, index } = partitionOf(place.topic);
    if (index < 0) {
      topics.set(row.full, { ...row, ...place, partitions: 0 });
      return;
    }
    const full = row.full.slice(0, row.full.length - (place.topic.length - base.length));
    let known = topics.get(full);
    if (!known) {
      known = { ...ZERO, ...place, topic: base, full, partitions: 0 };
      topics.set(full, known);
    }
    const subscriptions = Math.max(known.subscriptions, row.subscriptions); // the same ones, in each partition
    add(known, row);
    Object.assign(known, { topics: 1, subscriptions, partitions: known.partitions + 1 });
  }

  /** Sum of a tenant's namespaces. */
  tenant(name) {
    const sum = { ...ZERO };
    for (const [namespace, of] of this.namespaces) if (namespace.split("/")[0] === name) add(sum, of);
    return sum;
  }

  /** Rows of a namespace's topics; of all without one. */
  rows(tenant, namespace) {
    const rows = [...this.topics.values()];
    return namespace === undefined ? rows : rows.filter((row) => row.tenant === tenant && row.namespace === namespace);
  }
}
