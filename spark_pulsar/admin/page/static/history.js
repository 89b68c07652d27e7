// Samples of counters over time, and the rates between them. The broker's own rates are those of its last interval, a
// minute as a rule; counters tell what happened since the last look.

export const SAMPLES = 150;
const COUNTERS = [
  ["in", "bytesIn"],
  ["out", "bytesOut"],
];

/** The last numbers of some series, oldest first; NaN where nothing is known. */
export class History {
  constructor() {
    this.times = [];
    this.series = { in: [], out: [], bytesIn: [], bytesOut: [], backlog: [], storage: [] };
    this.last = null;
  }

  /** Adds the counters { in, out, bytesIn, bytesOut } and the levels { backlog, storage } of a moment. */
  add(time, sample) {
    const before = this.last;
    if (before && time <= before.time) return;
    const seconds = before ? (time - before.time) / 1000 : 0;
    this.times.push(time);
    for (const names of COUNTERS) {
      const grown = names.map((name) => (before ? sample[name] - before[name] : NaN));
      // Counters begin anew with the broker, and with a topic that is loaded again: messages and bytes at once.
      const isKnown = grown.every((number) => number >= 0);
      names.forEach((name, index) => this.series[name].push(isKnown ? grown[index] / seconds : NaN));
    }
    this.series.backlog.push(sample.backlog);
    this.series.storage.push(sample.storage);
    if (this.times.length > SAMPLES) {
      this.times.shift();
      for (const values of Object.values(this.series)) values.shift();
    }
    this.last = { time, ...sample };
  }

  /** The latest value of a series, or what is given when there is none yet. */
  now(name, otherwise = undefined) {
    const value = this.series[name].at(-1);
    return value === undefined || Number.isNaN(value) ? otherwise : value;
  }
}

/** Histories by name; those of names that are gone are forgotten. */
export class Histories {
  constructor() {
    this.byName = new Map();
  }

  of(name) {
    let found = this.byName.get(name);
    if (!found) {
      found = new History();
      this.byName.set(name, found);
    }
    return found;
  }

  keepOnly(names) {
    for (const name of this.byName.keys()) if (!names.has(name)) this.byName.delete(name);
  }
}
