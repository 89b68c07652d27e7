// Messages of a subscription's backlog, or of a topic from either end, decoded by the schemas they were sent with.

import { decoded, messagesOfBatch } from "./decode.js";
import { problemText } from "./dialogs.js";
import { bytes, h, newId, setText, when } from "./dom.js";
import { partitionOf, topicPath } from "./names.js";
import { get, getMessage, path } from "./rest.js";

const PAGE = 10;
const HEADER_TEXT = new TextDecoder();

/** Text of a header: its bytes are UTF-8, of which a browser makes one character each. */
function header(headers, name) {
  const value = headers.get(`X-Pulsar-${name}`);
  if (value === null) return undefined;
  if (/[^\u0000-\u00ff]/.test(value)) return value;
  const data = Uint8Array.from(value, (character) => character.charCodeAt(0));
  return HEADER_TEXT.decode(data);
}

/** The bytes of a message's key; null when it has none, or one that is said to be base64 and is not. */
function keyBytes({ key, isKeyBase64 }) {
  if (key === undefined) return null;
  if (!isKeyBase64) return new TextEncoder().encode(key);
  try {
    return Uint8Array.from(atob(key), (character) => character.charCodeAt(0));
  } catch {
    return null;
  }
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

export class Messages {
  /** `place` has a subscription or not; `partitions` is the number of partitions of its topic. */
  constructor(place, partitions) {
    this.place = place;
    this.schemas = new Map();
    this.list = h("ol", { class: "messages" });
    this.problem = h("p", { class: "problem", role: "alert", hidden: true });
    this.more = h("button", { type: "button", onclick: () => this.load() }, `${PAGE} more`);
    this.state = h("span", { class: "tally", role: "status" });
    this.partition = this.select("Partition", Array.from({ length: partitions }, (_, index) => [String(index), String(index)]));
    this.end = this.select("Order", [
      ["latest", "newest first"],
      ["earliest", "oldest first"],
    ]);
    const isPeek = place.subscription !== undefined;
    this.element = h(
      "section",
      { class: "card messages-card", "aria-label": "Messages" },
      h(
        "header",
        { class: "table-head" },
        h("h2", {}, isPeek ? "Next messages of the backlog" : "Messages"),
        this.state,
        partitions ? this.partition.element : null,
        isPeek ? null : this.end.element,
        h("button", { type: "button", class: "quiet", onclick: () => this.restart() }, "Look again"),
      ),
      h("p", { class: "hint" }, isPeek ? "Looking changes nothing: the messages stay in the backlog." : "Looking changes nothing."),
      this.list,
      this.problem,
      this.more,
    );
    this.aborting = new AbortController();
    this.restart();
  }

  select(label, options) {
    const id = newId("select");
    const input = h("select", { id, onchange: () => this.restart() }, options.map(([value, text]) => h("option", { value }, text)));
    return { element: h("label", { for: id, class: "check" }, label, input), input };
  }

  restart() {
    this.aborting.abort();
    this.aborting = new AbortController();
    this.next = 1;
    this.lastId = null;
    this.list.replaceChildren();
    this.load();
  }

  topic() {
    const { place } = this;
    const index = this.partition.input.value;
    return index === "" || partitionOf(place.topic).index >= 0 ? place : { ...place, topic: `${place.topic}-partition-${index}` };
  }

  url(number) {
    const topic = this.topic();
    if (topic.subscription !== undefined) return topicPath(topic, "subscription", topic.subscription, "position", String(number));
    return `${topicPath(topic, "examinemessage")}?initialPosition=${this.end.input.value}&messagePosition=${number}`;
  }

  async load() {
    const { signal } = this.aborting;
    this.problem.hidden = true;
    this.more.disabled = true;
    setText(this.state, "reading …");
    let isEnd = false;
    try {
      for (let index = 0; index < PAGE && !isEnd; index += 1) isEnd = !(await this.one(this.next, signal));
    } catch (error) {
      if (signal.aborted) return;
      this.problem.hidden = false;
      setText(this.problem, problemText(error));
      isEnd = true;
    }
    this.more.disabled = isEnd;
    const found = this.list.childElementCount;
    setText(this.state, found ? `${found}${isEnd ? ", that is all" : ""}` : this.problem.hidden ? "none" : "");
  }

  /** Shows the entry at a number; false when there is none. */
  async one(number, signal) {
    let found;
    try {
      found = await getMessage(this.url(number), signal);
    } catch (error) {
      // 404 past the end of a backlog, 412 in an empty topic.
      if (error.status === 404 && /Message not found/.test(error.message)) return false;
      if (error.status === 412 && /total message is zero/.test(error.message)) return false;
      throw error;
    }
    const id = header(found.headers, "Message-ID");
    if (id === this.lastId) return false; // past the end the last one comes again
    this.lastId = id;
    this.next = number + 1;
    const schema = await this.schemaOf(found.headers, signal);
    if (signal.aborted) return false;
    this.list.append(...this.shown(found, id, schema));
    return true;
  }

  /** The schema that a message was sent with; null when it has none or it cannot be read. */
  async schemaOf(headers, signal) {
    const version = versionOf(headers.get("X-Pulsar-Base64-schema-version"));
    if (version === null) return null;
    if (!this.schemas.has(version)) {
      const { tenant, namespace, topic } = this.place;
      const url = path("schemas", tenant, namespace, partitionOf(topic).base, "schema", version);
      this.schemas.set(
        version,
        await get(url, signal).catch((error) => {
          if (signal.aborted) throw error;
          return null;
        }),
      );
    }
    return this.schemas.get(version);
  }

  shown({ headers, payload }, id, schema) {
    const common = { id, producer: header(headers, "producer-name"), published: header(headers, "publish-time"), schema };
    if (header(headers, "Is-Encrypted") === "true") {
      return [this.message({ ...common, key: header(headers, "partition-key"), payload, properties: {}, isEncrypted: true })];
    }
    const size = header(headers, "num-batch-message");
    if (size === undefined) {
      const own = { key: header(headers, "partition-key"), isKeyBase64: header(headers, "partition-key-b64-encoded") === "true", properties: properties(header(headers, "PROPERTY")), isNull: header(headers, "null-value") === "true" };
      return [this.message({ ...common, ...own, payload, eventTime: Date.parse(header(headers, "event-time") || "") || undefined })];
    }
    try {
      const parts = messagesOfBatch(payload, Number(size));
      return parts.map((each, index) => this.message({ ...common, ...each, id: `${id}:${index}` }));
    } catch (error) {
      return [this.message({ ...common, payload, properties: {}, problem: `The batch cannot be read: ${error.message}` })];
    }
  }

  message(each) {
    const value = each.isEncrypted ? { kind: "encrypted", text: "Encrypted by its producer: the broker has no key.", problem: null } : decoded(each.payload, each.schema, keyBytes(each));
    const pairs = Object.entries(each.properties || {});
    const problem = each.problem || value.problem;
    return h(
      "li",
      { class: "message" },
      h(
        "div",
        { class: "message-head" },
        h("code", { class: "message-id" }, each.id),
        h("span", { class: "badge" }, value.kind + (each.schema && value.kind === each.schema.type ? ` v${each.schema.version}` : "")),
        each.isCompactedOut ? h("span", { class: "badge warn" }, "compacted out") : null,
        each.key === undefined ? null : h("span", { class: "message-key" }, "key ", h("b", {}, each.key)),
        h("span", { class: "message-facts" }, [when(Date.parse(each.published)), each.producer, bytes(each.payload.length)].filter(Boolean).join(" · ")),
      ),
      pairs.length ? h("dl", { class: "pairs" }, pairs.map(([name, text]) => h("div", {}, h("dt", {}, name), h("dd", {}, String(text))))) : null,
      each.eventTime ? h("p", { class: "hint" }, `Event time ${when(each.eventTime)}`) : null,
      problem ? h("p", { class: "problem" }, problem) : null,
      h("pre", { tabindex: "0" }, each.isNull ? "null (a tombstone)" : value.text),
    );
  }

  close() {
    this.aborting.abort();
  }
}
