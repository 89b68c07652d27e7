// Entries of topics and backlogs, message by message and in order: over the routes for single messages that every Apache
// Pulsar has. An entry is a request, a batch is one entry; entries that were read are kept for a while.

import { messagesOfBatch } from "./decode.js";
import { partitionOf, topicPath } from "./names.js";
import { get, getMessage } from "./rest.js";

const MOST_KEPT = 48;
/** Entries with fewer messages than this are fetched some at a time. */
const SMALL_BATCH = 8;
const AHEAD = 6;
const HEADER_TEXT = new TextDecoder();

// ---- an entry ---------------------------------------------------------------------------------------------------

/** Text of a header: its bytes are UTF-8, of which a browser makes one character each. */
function header(headers, name) {
  const value = headers.get(`X-Pulsar-${name}`);
  if (value === null) return undefined;
  if (/[^\u0000-\u00ff]/.test(value)) return value;
  return HEADER_TEXT.decode(Uint8Array.from(value, (character) => character.charCodeAt(0)));
}

/** Number in a schema's version of eight bytes in base64, as the admin API counts; null when it is none. */
function versionOf(text) {
  if (!text) return null;
  const data = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return data.length === 8 ? String(new DataView(data.buffer).getBigInt64(0)) : null;
}

function properties(text) {
  try {
    return text ? JSON.parse(text) : {};
  } catch {
    return {};
  }
}

const instant = (text) => Date.parse(text || "") || undefined;

/** Numbers of a message id, as every client of Pulsar writes them: ledger, entry, partition, index in the batch. */
export const idOf = (message) => `${message.ledger}:${message.entry}:${message.partition}:${message.batchIndex}`;

/** Reads `ledger:entry[:partition[:batch]]`, also in parentheses; null when the text is no id. */
export function parsedId(text) {
  const match = /^\s*\(?\s*(\d+)\s*[:,]\s*(\d+)(?:\s*[:,]\s*(-?\d+))?(?:\s*[:,]\s*(-?\d+))?\s*\)?\s*$/.exec(text);
  if (!match) return null;
  const [ledger, entry, partition, batchIndex] = match.slice(1).map((part) => (part === undefined ? -1 : Number(part)));
  return { ledger, entry, partition, batchIndex };
}

/** The messages of an entry, the oldest first. */
function messagesOf({ headers, payload }, partition) {
  const [ledger, entry] = header(headers, "Message-ID").split(":").map(Number);
  const common = {
    ledger,
    entry,
    partition,
    batchIndex: -1,
    producer: header(headers, "producer-name"),
    published: instant(header(headers, "publish-time")),
    version: versionOf(headers.get("X-Pulsar-Base64-schema-version")),
    state: stateOf(headers),
    payload,
    properties: {},
  };
  const key = header(headers, "partition-key");
  if (header(headers, "Is-Encrypted") === "true") return [{ ...common, key, isEncrypted: true }];
  const size = header(headers, "num-batch-message");
  if (size === undefined) {
    const isKeyBase64 = header(headers, "partition-key-b64-encoded") === "true";
    const eventTime = instant(header(headers, "event-time"));
    return [{ ...common, key, isKeyBase64, properties: properties(header(headers, "PROPERTY")), isNull: header(headers, "null-value") === "true", eventTime }];
  }
  try {
    return messagesOfBatch(payload, Number(size)).map((single, batchIndex) => ({ ...common, ...single, batchIndex }));
  } catch (error) {
    return [{ ...common, problem: `The batch cannot be read: ${error.message}` }];
  }
}

/** What a reader has to know of an entry besides its messages: of a transaction, a marker, a part of a message. */
function stateOf(headers) {
  if (headers.get("X-Pulsar-marker-type")) return "marker of a transaction";
  if (headers.get("X-Pulsar-txn-aborted") === "true") return "aborted";
  if (headers.get("X-Pulsar-txn-uncommitted") === "true") return "not committed";
  const parts = Number(headers.get("X-Pulsar-num-chunks-from-msg"));
  return parts > 1 ? `chunk ${Number(headers.get("X-Pulsar-chunk-id")) + 1} of ${parts}` : "";
}

// ---- where entries come from ------------------------------------------------------------------------------------

const order = (one, other) => one.ledger - other.ledger || one.entry - other.entry;

/** Entries by position, with those read of late kept. */
class Source {
  constructor(place) {
    this.place = place;
    this.partition = partitionOf(place.topic).index;
    this.kept = new Map();
  }

  /** The messages at a position; null when there is no entry. */
  at(position, signal) {
    const key = this.keyOf(position);
    const known = this.kept.get(key);
    if (known && (known.isRead || !known.signal.aborted)) return known.messages;
    const reading = { messages: this.fetched(position, signal), signal, isRead: false };
    reading.messages.then(
      () => (reading.isRead = true),
      () => this.kept.get(key) === reading && this.kept.delete(key),
    );
    this.kept.set(key, reading);
    if (this.kept.size > MOST_KEPT) this.kept.delete(this.kept.keys().next().value);
    return reading.messages;
  }

  async fetched(position, signal) {
    try {
      return messagesOf(await getMessage(this.url(position), signal), this.partition);
    } catch (error) {
      if (error.status === 404 && /Message (id )?not found/i.test(error.message)) return null;
      throw error;
    }
  }
}

/** A topic or partition: its entries by ledger and number, in both directions. */
export class TopicSource extends Source {
  keyOf({ ledger, entry }) {
    return `${ledger}:${entry}`;
  }

  url({ ledger, entry }) {
    return topicPath(this.place, "ledger", String(ledger), "entry", String(entry));
  }

  /** Reads which ledgers there are, and how far they go. */
  async read(signal) {
    const stats = await get(topicPath(this.place, "internalStats"), signal);
    const [ledger, entry] = stats.lastConfirmedEntry.split(":").map(Number);
    const counted = stats.ledgers.map((each) => ({ ledger: each.ledgerId, entries: each.ledgerId === ledger ? entry + 1 : each.entries }));
    this.ledgers = counted.filter((each) => each.entries > 0 && each.ledger <= ledger).toSorted(order);
    this.last = this.end(true);
    this.entries = this.ledgers.reduce((sum, each) => sum + each.entries, 0);
  }

  /** The newest or oldest position; null in an empty topic. */
  end(isNewest) {
    const last = this.ledgers.at(isNewest ? -1 : 0);
    return last ? { ledger: last.ledger, entry: isNewest ? last.entries - 1 : 0 } : null;
  }

  /** The position after one in a direction; null at the end. */
  step({ ledger, entry }, isNewest) {
    const at = this.ledgers.findIndex((each) => each.ledger >= ledger);
    if (isNewest) {
      if (at >= 0 && this.ledgers[at].ledger === ledger && entry > 0) return { ledger, entry: entry - 1 };
      const before = at < 0 ? this.ledgers.at(-1) : this.ledgers[at - 1];
      return before ? { ledger: before.ledger, entry: before.entries - 1 } : null;
    }
    if (at < 0) return null;
    if (this.ledgers[at].ledger !== ledger) return { ledger: this.ledgers[at].ledger, entry: 0 };
    if (entry + 1 < this.ledgers[at].entries) return { ledger, entry: entry + 1 };
    return this.ledgers[at + 1] ? { ledger: this.ledgers[at + 1].ledger, entry: 0 } : null;
  }

  /** The nearest position that exists, in a direction. */
  near(position, isNewest) {
    const own = this.ledgers.find((each) => each.ledger === position.ledger);
    if (own && position.entry < own.entries) return { ledger: position.ledger, entry: position.entry };
    return this.step(own ? { ledger: own.ledger, entry: isNewest ? own.entries : own.entries - 1 } : position, isNewest);
  }

  /** Where a direction begins that starts at a time: from its first message on, or back from the one before. */
  async atTime(ms, isNewest, signal) {
    if (!this.last) return null;
    const id = await get(topicPath(this.place, "messageid", String(ms)), signal);
    const first = { ledger: id.ledgerId, entry: Math.max(0, id.entryId) };
    if (isNewest) return this.step(first, true);
    return order(first, this.last) > 0 ? null : this.near(first, false);
  }

  isAfter(position, other) {
    return position !== null && (!other || order(position, other) > 0);
  }
}

/** The backlog of a subscription: its entries that are not acknowledged, by their number. */
export class BacklogSource extends Source {
  keyOf(number) {
    return String(number);
  }

  url(number) {
    return topicPath(this.place, "subscription", this.place.subscription, "position", String(number));
  }

  /** Makes sure that the subscription is there: Apache Pulsar creates the one that is peeked at. */
  async read(signal) {
    this.kept.clear(); // numbers count from the first one that is not acknowledged
    const names = await get(topicPath(this.place, "subscriptions"), signal);
    if (!names.includes(this.place.subscription)) throw Object.assign(new Error("There is no subscription of this name (any more)"), { status: 404 });
  }

  end() {
    return 1;
  }

  step(number) {
    return number + 1;
  }
}

// ---- a walk -----------------------------------------------------------------------------------------------------

/** Messages of some sources, merged by the time of publishing; `state` says where each one stands. */
export class Walk {
  constructor(sources, isNewest, state) {
    this.sources = sources;
    this.isNewest = isNewest;
    this.state = state;
    this.heads = sources.map(() => null);
    this.entries = 0;
  }

  /** The state that a walk over sources begins with, at positions or at the ends. */
  static from(sources, isNewest, positions = sources.map((source) => source.end(isNewest))) {
    return sources.map((_, index) => ({ next: positions[index], skip: 0, floor: null }));
  }

  /** A copy of the state, from which another walk goes on. */
  saved() {
    return this.state.map((each) => ({ ...each }));
  }

  /** Whether nothing is left, as far as is known without another request. */
  get isAtEnd() {
    return this.state.every((at, index) => at.next === null || (this.heads[index] && at.skip >= this.heads[index].length && this.stepped(index) === null));
  }

  /** Yields the messages in their order, and null for an entry without any, so that a reader can count its requests. */
  async *messages(signal) {
    for (;;) {
      await Promise.all(this.sources.map((_, index) => this.fill(index, signal)));
      if (this.state.some((at, index) => at.next !== null && this.heads[index] === null)) {
        yield null;
        continue;
      }
      const index = this.foremost();
      if (index < 0) return;
      const [at, messages] = [this.state[index], this.heads[index]];
      while (at.skip < messages.length) {
        at.skip += 1;
        yield messages[at.skip - 1];
      }
      this.advance(index);
    }
  }

  stepped(index) {
    const at = this.state[index];
    const next = this.sources[index].step(at.next, this.isNewest);
    return next === null || (at.floor && !this.sources[index].isAfter(next, at.floor)) ? null : next;
  }

  advance(index) {
    Object.assign(this.state[index], { next: this.stepped(index), skip: 0 });
    this.heads[index] = null;
  }

  /** Reads the next entry of a source, if it has one, and some after it if they are small. */
  async fill(index, signal) {
    const [source, at] = [this.sources[index], this.state[index]];
    if (this.heads[index] !== null || at.next === null) return;
    const messages = await source.at(at.next, signal);
    this.entries += 1;
    if (messages === null || messages.length === 0) {
      if (messages === null && source instanceof BacklogSource) at.next = null;
      else this.advance(index); // an entry that compaction or a lost file took away, or a batch of nothing
      return;
    }
    this.heads[index] = this.isNewest ? messages.toReversed() : messages;
    if (messages.length < SMALL_BATCH) this.readAhead(source, at.next, signal);
  }

  readAhead(source, position, signal) {
    let next = position;
    for (let step = 0; step < AHEAD; step += 1) {
      next = source.step(next, this.isNewest);
      if (next === null) return;
      source.at(next, signal).catch(() => {}); // told when it is its turn
    }
  }

  /** The source whose next message comes first. */
  foremost() {
    let best = -1;
    this.heads.forEach((messages, index) => {
      if (messages === null) return;
      if (best < 0) best = index;
      else {
        const [one, other] = [messages[0]?.published ?? 0, this.heads[best][0]?.published ?? 0];
        if (this.isNewest ? one > other : one < other) best = index;
      }
    });
    return best;
  }
}
