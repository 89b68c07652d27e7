// A message that is produced, and a topic that is created, from the page.

import { command, written } from "./commands.js";
import { addresses } from "./connect.js";
import { ask } from "./dialogs.js";
import { base64, timeOf } from "./dom.js";
import { fullName, topicPath } from "./names.js";
import { authorizationToken, segments, send } from "./rest.js";

const PATIENCE_MS = 30_000;

/** Reads lines of `name=value`. */
function propertiesOf(text) {
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  const wrong = lines.find((line) => line.indexOf("=") < 1);
  if (wrong !== undefined) throw new Error(`${wrong} is no property: want name=value`);
  return Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]));
}

function eventTimeOf(text) {
  if (!text.trim()) return undefined;
  const date = new Date(timeOf(text));
  if (Number.isNaN(date.getTime())) throw new Error(`${text} is no time: want one such as 2026-01-31 12:00`);
  return date;
}

/** Sends a message over the broker's WebSocket API, as the role that is signed in. */
function sendOverWebSocket(place, message) {
  const token = authorizationToken();
  const where = `/ws/v2/producer/${segments(place.domain, place.tenant, place.namespace, place.topic)}${token ? `?token=${encodeURIComponent(token)}` : ""}`;
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${where}`);
    const timer = setTimeout(() => socket.close(4000, "no receipt came in time"), PATIENCE_MS);
    socket.onopen = () => socket.send(JSON.stringify(message));
    socket.onmessage = (event) => {
      const answer = JSON.parse(event.data);
      if (answer.result === "ok") resolve(answer.messageId);
      else reject(new Error(answer.errorMsg || answer.result));
      socket.close();
    };
    socket.onclose = (event) => {
      clearTimeout(timer);
      reject(new Error(event.reason || "Refused: this role may not produce here, the topic takes no such producer, or webSocketServiceEnabled=false"));
    };
  });
}

async function produced(place, values) {
  const date = eventTimeOf(values.eventTime);
  const message = { payload: base64(new TextEncoder().encode(values.value)), properties: propertiesOf(values.properties) };
  if (values.key) message.key = values.key;
  if (date) message.eventTime = date.toISOString();
  const { produces } = await addresses();
  if (produces) await send("POST", "/page/produce", { ...message, topic: fullName(place) });
  else await sendOverWebSocket(place, message);
}

function produceCommand(place, values) {
  let [properties, date] = [{}, undefined];
  try {
    [properties, date] = [propertiesOf(values.properties), eventTimeOf(values.eventTime)];
  } catch {
    // said when it is sent
  }
  const words = ["spark-pulsar", "produce", fullName(place)];
  if (date) {
    const line = { value: values.value, key: values.key || undefined, properties, event_time_ms: date.getTime() };
    return `${written(["printf", "%s\\n", JSON.stringify(line)])} | ${written([...words, "--json-lines"])}`;
  }
  const pairs = Object.entries(properties).flatMap(([name, value]) => ["-p", `${name}=${value}`]);
  return written([...words, "-m", values.value, ...(values.key ? ["-k", values.key] : []), ...pairs]);
}

export function produce(place) {
  return ask({
    title: `Produce a message to ${place.topic}`,
    text: "One message, as text. Its consumers get it like any other.",
    fields: [
      { name: "value", label: "Value", lines: 4 },
      { name: "key", label: "Key" },
      { name: "properties", label: "Properties, a line name=value each", lines: 2 },
      { name: "eventTime", label: "Event time", placeholder: "2026-01-31 12:00" },
    ],
    command: (values) => produceCommand(place, values),
    verb: "Produce",
    run: (values) => produced(place, values),
    done: `Produced a message to ${place.topic}`,
  });
}

/** Asks for a new topic; resolves to its place, or to nothing. */
export async function createTopic({ tenant, namespace }) {
  let made;
  const placeOf = (values) => ({ tenant, namespace, domain: "persistent", topic: values.name });
  const isDone = await ask({
    title: `Create a topic in ${tenant}/${namespace}`,
    text: "Topics also appear with their first producer or consumer, where the namespace allows it.",
    fields: [
      { name: "name", label: "Name", isRequired: true },
      { name: "partitions", label: "Partitions (0: a single topic)", type: "number", min: 0, step: 1, value: "0", isRequired: true },
    ],
    command: (values) => {
      const name = fullName(placeOf(values));
      const number = Number(values.partitions);
      return number ? command("topics", "create-partitioned-topic", name, "--partitions", String(number)) : command("topics", "create", name);
    },
    verb: "Create",
    run: async (values) => {
      made = placeOf(values);
      const number = Number(values.partitions);
      await (number ? send("PUT", topicPath(made, "partitions"), number) : send("PUT", topicPath(made)));
    },
    done: (values) => `${values.name} is created`,
  });
  return isDone ? made : undefined;
}
