// Messages as they are stored: the parts of a batch, and values by their schema.

const text = new TextDecoder("utf-8", { fatal: true });
const loose = new TextDecoder();
const SHOWN_BYTES = 1 << 16;
const LINE_CHARACTERS = 100;

/** Reads bytes from front to back; throws RangeError past the end. */
class Reader {
  constructor(data) {
    this.data = data;
    this.view = new DataView(data.buffer, data.byteOffset, data.byteLength);
    this.at = 0;
  }

  get isAtEnd() {
    return this.at >= this.data.length;
  }

  take(size) {
    if (size < 0 || this.at + size > this.data.length) throw new RangeError("the message ends too early");
    const found = this.data.subarray(this.at, this.at + size);
    this.at += size;
    return found;
  }

  number(method, size, ...order) {
    const at = this.at;
    this.take(size);
    return this.view[method](at, ...order);
  }

  varint() {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.take(1)[0];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
    throw new RangeError("a number of more than 64 bits");
  }
}

const shortened = (value) => (value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : String(value));
const hex = (data) => Array.from(data, (byte) => byte.toString(16).padStart(2, "0")).join(" ");

// ---- protobuf ---------------------------------------------------------------------------------------------------

/** Lists the fields of a protobuf message: [number, value], a BigInt or bytes. */
function fields(data) {
  const reader = new Reader(data);
  const found = [];
  while (!reader.isAtEnd) {
    const key = Number(reader.varint());
    const kind = key & 7;
    const number = key >>> 3;
    if (number === 0) throw new RangeError("no field");
    if (kind === 0) found.push([number, reader.varint()]);
    else if (kind === 1) found.push([number, reader.number("getBigUint64", 8, true)]);
    else if (kind === 2) found.push([number, reader.take(Number(reader.varint()))]);
    else if (kind === 5) found.push([number, BigInt(reader.number("getUint32", 4, true))]);
    else throw new RangeError("no type of a field");
  }
  return found;
}

/** Shows a protobuf message by the numbers of its fields. */
function byNumber(data, depth = 0) {
  const shown = {};
  for (const [number, value] of fields(data)) {
    let read = value;
    if (typeof value === "bigint") read = shortened(value);
    else read = textOrNull(value) ?? nested(value, depth) ?? hex(value);
    shown[number] = number in shown ? [].concat(shown[number], [read]) : read;
  }
  return shown;
}

function nested(data, depth) {
  if (depth > 20 || !data.length) return null;
  try {
    return byNumber(data, depth + 1);
  } catch {
    return null;
  }
}

// ---- batches ----------------------------------------------------------------------------------------------------

/** Metadata of one message of a batch. */
function single(data) {
  const found = { payloadSize: 0 };
  const properties = [];
  for (const [number, value] of fields(data)) {
    if (number === 1) {
      const pair = new Map(fields(value));
      properties.push([loose.decode(pair.get(1) ?? new Uint8Array()), loose.decode(pair.get(2) ?? new Uint8Array())]);
    } else if (number === 2) found.key = loose.decode(value);
    else if (number === 3) found.payloadSize = Number(value);
    else if (number === 4) found.isCompactedOut = value !== 0n;
    else if (number === 5) found.eventTime = Number(value);
    else if (number === 6) found.isKeyBase64 = value !== 0n;
    else if (number === 8) found.sequenceId = shortened(value);
    else if (number === 9) found.isNull = value !== 0n;
  }
  return { ...found, properties: Object.fromEntries(properties) }; // which takes any name for one, __proto__ too
}

/** Splits a batch into its messages: { payload, key, properties, … }. */
export function messagesOfBatch(payload, count) {
  const reader = new Reader(payload);
  const found = [];
  for (let index = 0; index < count && !reader.isAtEnd; index += 1) {
    const metadata = single(reader.take(reader.number("getInt32", 4)));
    found.push({ ...metadata, payload: reader.take(metadata.payloadSize) });
  }
  return found;
}

/** The shortest number that is this one in 32 bits: 0.1, not 0.10000000149011612. */
function single32(value) {
  for (let digits = 6; digits < 9; digits += 1) {
    const found = Number(value.toPrecision(digits));
    if (Math.fround(found) === value) return found;
  }
  return value;
}

// ---- Avro -------------------------------------------------------------------------------------------------------

const zigzag = (value) => (value >> 1n) ^ -(value & 1n);
const day = (days) => new Date(days * 86_400_000).toISOString().slice(0, 10);
const instant = (ms) => (Math.abs(ms) < 8.64e15 ? new Date(ms).toISOString() : ms);

function decimal(data, scale = 0) {
  let value = BigInt.asIntN(data.length * 8, data.reduce((total, byte) => (total << 8n) | BigInt(byte), 0n));
  const sign = value < 0n ? "-" : "";
  if (value < 0n) value = -value;
  const digits = String(value).padStart(scale + 1, "0");
  return sign + (scale ? `${digits.slice(0, -scale)}.${digits.slice(-scale)}` : digits);
}

const LOGICAL = {
  date: (value) => day(value),
  "timestamp-millis": (value) => instant(value),
  "timestamp-micros": (value) => instant(Math.floor(value / 1000)),
  "local-timestamp-millis": (value) => String(instant(value)).replace("Z", ""),
  "local-timestamp-micros": (value) => String(instant(Math.floor(value / 1000))).replace("Z", ""),
  "time-millis": (value) => instant(value).slice(11, 23),
  "time-micros": (value) => instant(Math.floor(value / 1000)).slice(11, 23),
  decimal: (value, schema) => decimal(value, schema.scale),
};

class Avro {
  constructor(schema, data) {
    this.reader = new Reader(data);
    this.named = new Map();
    this.root = schema;
    this.left = 20_000;
  }

  read() {
    return this.value(this.root, "");
  }

  long() {
    return zigzag(this.reader.varint());
  }

  bytes() {
    return this.reader.take(Number(this.long()));
  }

  name(schema, space) {
    const inner = schema.namespace ?? (schema.name.includes(".") ? schema.name.slice(0, schema.name.lastIndexOf(".")) : space);
    const last = schema.name.split(".").at(-1);
    this.named.set(last, [schema, inner]).set(`${inner}.${last}`, [schema, inner]);
    return inner;
  }

  value(schema, space) {
    this.left -= 1;
    if (this.left < 0) throw new RangeError("the value has too many parts to be shown");
    if (Array.isArray(schema)) return this.value(schema[Number(this.long())], space);
    if (typeof schema === "string") {
      const known = this.named.get(schema) ?? this.named.get(`${space}.${schema}`);
      return known ? this.value(known[0], known[1]) : this.primitive(schema, schema);
    }
    if (schema === undefined || schema === null) throw new RangeError("no such branch of a union");
    const logical = Object.hasOwn(LOGICAL, schema.logicalType ?? "") ? LOGICAL[schema.logicalType] : null;
    const value = typeof schema.type === "string" ? this.complex(schema, space, logical !== null) : this.value(schema.type, space);
    return logical ? logical(value, schema) : value;
  }

  complex(schema, space, isRaw) {
    switch (schema.type) {
      case "record": {
        const inner = this.name(schema, space);
        return Object.fromEntries(schema.fields.map((each) => [each.name, this.value(each.type, inner)]));
      }
      case "enum":
        this.name(schema, space);
        return schema.symbols[Number(this.long())];
      case "fixed": {
        this.name(schema, space);
        const data = this.reader.take(schema.size);
        return isRaw ? data : hex(data);
      }
      case "array":
        return this.blocks(() => this.value(schema.items, space));
      case "map":
        return Object.fromEntries(this.blocks(() => [loose.decode(this.bytes()), this.value(schema.values, space)]));
      default:
        return this.named.has(schema.type) ? this.value(schema.type, space) : this.primitive(schema.type, schema, isRaw);
    }
  }

  blocks(read) {
    const found = [];
    for (let size = this.long(); size !== 0n; size = this.long()) {
      if (size < 0n) {
        size = -size;
        this.long();
      }
      for (let index = 0n; index < size; index += 1n) found.push(read());
    }
    return found;
  }

  primitive(type, schema, isRaw = false) {
    switch (type) {
      case "null":
        return null;
      case "boolean":
        return this.reader.take(1)[0] !== 0;
      case "int":
      case "long":
        return shortened(this.long());
      case "float":
        return single32(this.reader.number("getFloat32", 4, true));
      case "double":
        return this.reader.number("getFloat64", 8, true);
      case "bytes": {
        const data = this.bytes();
        return isRaw ? data : (textOrNull(data) ?? hex(data));
      }
      case "string":
        return loose.decode(this.bytes());
      default:
        throw new RangeError(`no type of Avro: ${type}`);
    }
  }
}

// ---- schemas ----------------------------------------------------------------------------------------------------

/** The text of bytes, null when they are no text. */
function textOrNull(data) {
  try {
    const found = text.decode(data);
    // eslint-disable-next-line no-control-regex
    return /[\u0000-\u0008\u000e-\u001f]/.test(found) ? null : found;
  } catch {
    return null;
  }
}

const long = (reader) => reader.number("getBigInt64", 8);

const PRIMITIVES = {
  STRING: (data) => loose.decode(data),
  BOOLEAN: (data) => data[0] !== 0,
  INT8: (_, reader) => reader.number("getInt8", 1),
  INT16: (_, reader) => reader.number("getInt16", 2),
  INT32: (_, reader) => reader.number("getInt32", 4),
  INT64: (_, reader) => shortened(long(reader)),
  FLOAT: (_, reader) => single32(reader.number("getFloat32", 4)),
  DOUBLE: (_, reader) => reader.number("getFloat64", 8),
  DATE: (_, reader) => instant(Number(long(reader))),
  TIME: (_, reader) => instant(Number(long(reader))),
  TIMESTAMP: (_, reader) => instant(Number(long(reader))),
  INSTANT: (_, reader) => instant(Number(long(reader)) * 1000),
  LOCAL_DATE: (_, reader) => day(Number(long(reader))),
  LOCAL_TIME: (_, reader) => instant(Number(long(reader) / 1_000_000n)).slice(11, 23),
  LOCAL_DATE_TIME: (_, reader) => `${day(Number(long(reader)))}T${instant(Number(long(reader) / 1_000_000n)).slice(11, 23)}`,
  JSON: (data) => JSON.parse(text.decode(data)),
  PROTOBUF: (data) => byNumber(data),
  PROTOBUF_NATIVE: (data) => byNumber(data),
};

function keyValue(data, schema, key) {
  const properties = schema.properties || {};
  const parts = typeof schema.data === "string" && schema.data ? JSON.parse(schema.data) : schema.data || {};
  const part = (name) => ({ type: properties[`${name}.schema.type`] || "BYTES", data: typeof parts[name] === "string" ? parts[name] : JSON.stringify(parts[name] ?? "") });
  if (properties["kv.encoding.type"] === "SEPARATED") {
    return { key: key && bySchema(key, part("key"), null), value: bySchema(data, part("value"), null) };
  }
  const reader = new Reader(data);
  const sized = () => {
    const size = reader.number("getInt32", 4);
    return size < 0 ? null : reader.take(size);
  };
  const [first, second] = [sized(), sized()];
  return { key: first && bySchema(first, part("key"), null), value: second && bySchema(second, part("value"), null) };
}

function bySchema(data, schema, key) {
  if (schema.type === "AVRO") return new Avro(JSON.parse(schema.data), data).read();
  if (schema.type === "KEY_VALUE") return keyValue(data, schema, key);
  const read = Object.hasOwn(PRIMITIVES, schema.type) ? PRIMITIVES[schema.type] : null;
  return read ? read(data, new Reader(data)) : untyped(data).value;
}

function untyped(data) {
  const found = textOrNull(data);
  if (found === null) return { kind: "bytes", value: dump(data) };
  if (/^\s*[[{]/.test(found)) {
    try {
      return { kind: "JSON", value: JSON.parse(found) };
    } catch {
      // text that begins like JSON
    }
  }
  return { kind: "text", value: found };
}

/** JSON of a value, in a line if it is short. */
function inLines(value) {
  const lines = JSON.stringify(value, plainNumbers, 2);
  const line = lines.length < 2 * LINE_CHARACTERS ? lines.replaceAll(/\n\s*/g, " ") : lines;
  return line.length <= LINE_CHARACTERS ? line : lines;
}

/** For JSON.stringify: numbers that JSON has none of become texts. */
export const plainNumbers = (_, value) => (typeof value === "bigint" ? String(value) : value);

/** Lines of 16 bytes, as hexadecimal digits and as characters. */
function dump(data) {
  const lines = [];
  for (let at = 0; at < Math.min(data.length, 4096); at += 16) {
    const part = data.subarray(at, Math.min(at + 16, 4096));
    const characters = Array.from(part, (byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex(part).padEnd(47)}  ${characters}`);
  }
  return lines.join("\n");
}

/**
 * Decodes a payload by a schema, or by what it looks like without one: { kind, text, problem, value }. `key` are the
 * bytes of the message's key, or null. A payload that does not fit its schema is shown as it is, with the problem; its
 * value is its text, undefined for bytes that are none.
 */
export function decoded(data, schema, key) {
  let [kind, value, problem] = ["", null, null];
  if (schema && schema.type !== "NONE" && schema.type !== "BYTES") {
    try {
      value = bySchema(data, schema, key);
      kind = schema.type;
    } catch (error) {
      problem = `Does not fit its schema (${schema.type}): ${error.message}`;
    }
  }
  const read = kind === "" ? (textOrNull(data) ?? undefined) : value;
  if (kind === "") ({ kind, value } = untyped(data));
  const text = typeof value === "string" ? value : inLines(value);
  return { kind, text: text.length > SHOWN_BYTES ? `${text.slice(0, SHOWN_BYTES)}\n… cut` : text, problem, value: read };
}
