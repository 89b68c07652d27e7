// Messages as records: decoded by the schemas they were sent with, matched, copied, and written as JSON lines or CSV.
// The members are those of `spark-pulsar read --format json`.

import { decoded, plainNumbers } from "./decode.js";
import { base64 } from "./dom.js";
import { idOf } from "./entries.js";
import { fullName, partitionOf } from "./names.js";
import { get, path } from "./rest.js";

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

/** Decodes messages of a topic; a schema is read once. */
export class Decoder {
  constructor(place) {
    this.place = place;
    this.schemas = new Map();
  }

  /** Adds to a message its schema and what its payload says. */
  async decode(message, signal) {
    if (message.told) return message;
    message.schema = message.version === null ? null : await this.schemaOf(message.version, signal);
    message.told = message.isEncrypted
      ? { kind: "encrypted", text: "Encrypted by its producer: the broker has no key.", problem: null }
      : decoded(message.payload, message.schema, keyBytes(message));
    if (message.isNull) message.told.text = "null (a tombstone)";
    return message;
  }

  /** The schema of a version; null when it cannot be read. */
  async schemaOf(version, signal) {
    if (!this.schemas.has(version)) {
      const { tenant, namespace, topic } = this.place;
      const url = path("schemas", tenant, namespace, partitionOf(topic).base, "schema", version);
      const schema = await get(url, signal).catch((error) => {
        if (signal.aborted) throw error;
        return null;
      });
      this.schemas.set(version, schema);
    }
    return this.schemas.get(version);
  }
}

/** Makes a test of messages of the filters { key, property, text }: contained, whatever the case; `name=value` is exact. */
export function matcher({ key = "", property = "", text = "" }) {
  const has = (value, part) => String(value ?? "").toLowerCase().includes(part.toLowerCase());
  const at = property.indexOf("=");
  const [name, value] = [property.slice(0, at), property.slice(at + 1)];
  const hasProperty = ({ properties }) =>
    at > 0 ? Object.hasOwn(properties, name) && String(properties[name]) === value : Object.entries(properties).some(([one, other]) => has(one, name) || has(other, name));
  return (message) => (!key || has(message.key, key)) && (!property || hasProperty(message)) && (!text || has(message.told.text, text));
}

export function recordOf(place, message) {
  const topic = message.partition >= 0 && partitionOf(place.topic).index < 0 ? { ...place, topic: `${place.topic}-partition-${message.partition}` } : place;
  const record = {
    topic: fullName(topic),
    id: idOf(message),
    key: message.key ?? null,
    properties: message.properties,
    publish_time_ms: message.published ?? null,
    event_time_ms: message.eventTime ?? null,
    producer: message.producer ?? null,
    schema: null,
    value: null,
  };
  if (message.isNull) return record;
  const { kind, value } = message.told;
  const isBySchema = message.schema !== null && kind === message.schema.type;
  if (isBySchema) record.schema = kind;
  if (value !== undefined) record.value = value;
  if (value === undefined || (isBySchema && kind !== "STRING")) record.value_base64 = base64(message.payload);
  return record;
}

export const jsonLine = (record) => JSON.stringify(record, plainNumbers);

const COLUMNS = ["topic", "id", "key", "properties", "publish_time_ms", "event_time_ms", "producer", "schema", "value", "value_base64"];

/** A cell: quoted where it must be, and never a formula to a spreadsheet. */
function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = typeof value === "string" ? value : JSON.stringify(value, plainNumbers);
  const plain = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
}

export const FORMATS = {
  jsonl: { title: "JSON lines", type: "application/x-ndjson", text: (records) => records.map((record) => `${jsonLine(record)}\n`).join("") },
  csv: { title: "CSV", type: "text/csv", text: (records) => [COLUMNS, ...records.map((record) => COLUMNS.map((name) => record[name]))].map((row) => `${row.map(cell).join(",")}\r\n`).join("") },
};

/** Has the browser save a text as a file. */
export function save(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  Object.assign(link, { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** Copies a text; without a secure context, as over plain HTTP, by the older way. */
export async function copy(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "hidden";
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  if (!isCopied) throw new Error("the browser does not let this page copy");
}
