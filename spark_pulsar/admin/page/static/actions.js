// What the page does to namespaces, topics and subscriptions: each asks first, says what will happen, and shows the
// command that does the same.

import { command } from "./commands.js";
import { ask } from "./dialogs.js";
import { count, plural, timeOf } from "./dom.js";
import { parsedId } from "./entries.js";
import { fullName, topicPath } from "./names.js";
import { path, send } from "./rest.js";

const AGES = [
  ["60", "1 minute"],
  ["3600", "1 hour"],
  ["86400", "1 day"],
  ["604800", "7 days"],
  ["own", "Another age …"],
];
const AGE_FIELDS = [
  { name: "age", label: "Older than", options: AGES, value: "3600" },
  { name: "seconds", label: "Seconds", type: "number", min: 1, step: 1, value: "600", when: (values) => values.age === "own" },
];
const ageOf = (values) => Number(values.age === "own" ? values.seconds : values.age);

function localTime(ms) {
  const date = new Date(ms - new Date().getTimezoneOffset() * 60_000);
  return date.toISOString().slice(0, 19);
}

// ---- subscriptions ----------------------------------------------------------------------------------------------

const ofSubscription = (place, ...more) => topicPath(place, "subscription", place.subscription, ...more);
const commandOf = (place, name, ...options) => command("topics", name, "-s", place.subscription, ...options, fullName(place));

export function clearBacklog(place, backlog) {
  return ask({
    title: `Clear the backlog of ${place.subscription}`,
    text: `${plural(backlog, "entry").replace("entrys", "entries")} of the subscription will count as acknowledged: its consumers never get them.`,
    typed: place.subscription,
    verb: "Clear backlog",
    isDangerous: true,
    command: () => commandOf(place, "clear-backlog"),
    run: () => send("POST", ofSubscription(place, "skip_all")),
    done: `The backlog of ${place.subscription} is cleared`,
  });
}

export function skip(place, backlog) {
  return ask({
    title: `Skip messages of ${place.subscription}`,
    text: (values) => `The next ${count(Number(values.number) || 0)} of ${count(backlog)} entries will count as acknowledged: its consumers never get them.`,
    fields: [{ name: "number", label: "Entries to skip", type: "number", min: 1, step: 1, value: "1", isRequired: true }],
    verb: "Skip",
    isDangerous: true,
    command: (values) => commandOf(place, "skip", "-n", String(Number(values.number) || 0)),
    run: (values) => send("POST", ofSubscription(place, "skip", String(Number(values.number)))),
    done: (values) => `Skipped ${count(Number(values.number))} of ${place.subscription}`,
  });
}

const EARLIEST = "earliest";
/** Reaches back to before every message: a partitioned topic is reset to a time alone. */
const ALWAYS = "50y";

/** The id that a text names, as the body of a reset; without one the text is refused. */
function positionOf(text) {
  const id = parsedId(text);
  if (!id) throw new Error("A message id is written LEDGER:ENTRY, such as 12:345, or LEDGER:ENTRY:PARTITION:BATCH");
  return { ledgerId: id.ledger, entryId: id.entry, partitionIndex: id.partition, batchIndex: id.batchIndex };
}

function resetCommand(place, values, isPartitioned) {
  if (values.kind === "time") {
    const seconds = Math.max(0, Math.round((Date.now() - timeOf(values.time)) / 1000));
    return commandOf(place, "reset-cursor", "-t", `${seconds || 0}s`);
  }
  if (values.kind === EARLIEST && isPartitioned) return commandOf(place, "reset-cursor", "-t", ALWAYS);
  return commandOf(place, "reset-cursor", "-m", values.kind === EARLIEST ? EARLIEST : values.id.trim() || "LEDGER:ENTRY");
}

export function resetCursor(place, isPartitioned) {
  const kinds = [
    [EARLIEST, "The oldest message that is kept"],
    ["time", "A time of publishing"],
    ...(isPartitioned ? [] : [["id", "A message id"]]),
  ];
  const reset = (values) => {
    if (values.kind === "id") return send("POST", ofSubscription(place, "resetcursor"), positionOf(values.id));
    const ms = values.kind === EARLIEST ? 0 : timeOf(values.time);
    if (Number.isNaN(ms)) throw new Error("Choose a date and a time");
    return send("POST", ofSubscription(place, "resetcursor", String(ms)));
  };
  return ask({
    title: `Reset the cursor of ${place.subscription}`,
    text: "Its consumers are disconnected for a moment and get everything from there on, again if need be; what is before it counts as acknowledged.",
    fields: [
      { name: "kind", label: "To", options: kinds },
      { name: "time", label: "Published at or after (your local time)", type: "datetime-local", step: 1, value: localTime(Date.now() - 3_600_000), when: (values) => values.kind === "time" },
      { name: "id", label: "Message id (ledger:entry)", placeholder: "12:345", when: (values) => values.kind === "id" },
    ],
    command: (values) => resetCommand(place, values, isPartitioned),
    verb: "Reset cursor",
    isDangerous: true,
    run: reset,
    done: `The cursor of ${place.subscription} is reset`,
  });
}

export function expire(place) {
  const isOne = place.subscription !== undefined;
  const whose = isOne ? place.subscription : `all subscriptions of ${place.topic}`;
  const of = (seconds) => (isOne ? ofSubscription(place, "expireMessages", seconds) : topicPath(place, "all_subscription", "expireMessages", seconds));
  return ask({
    title: `Expire messages of ${whose}`,
    text: "Messages older than this count as acknowledged: consumers never get them.",
    fields: AGE_FIELDS,
    verb: "Expire",
    isDangerous: true,
    command: (values) => (isOne ? commandOf(place, "expire-messages", "-t", `${ageOf(values)}s`) : command("topics", "expire-messages-all-subscriptions", "-t", `${ageOf(values)}s`, fullName(place))),
    run: (values) => send("POST", of(String(ageOf(values)))),
    done: `Older messages of ${whose} are expired`,
  });
}

export function deleteSubscription(place, backlog) {
  return ask({
    title: `Delete the subscription ${place.subscription}`,
    text: `Its cursor and its backlog of ${count(backlog)} are gone for good. It is refused while consumers are connected.`,
    typed: place.subscription,
    verb: "Delete subscription",
    isDangerous: true,
    command: () => commandOf(place, "unsubscribe"),
    run: () => send("DELETE", ofSubscription(place)),
    done: `The subscription ${place.subscription} is deleted`,
  });
}

// ---- topics -----------------------------------------------------------------------------------------------------

export function unloadTopic(place) {
  return ask({
    title: `Unload ${place.topic}`,
    text: "Producers and consumers are disconnected and connect again by themselves; nothing is lost.",
    verb: "Unload",
    command: () => command("topics", "unload", fullName(place)),
    run: () => send("PUT", topicPath(place, "unload")),
    done: `${place.topic} is unloaded`,
  });
}

export function compactTopic(place) {
  return ask({
    title: `Compact ${place.topic}`,
    text: "Readers of the compacted view get the last message of each key; all others get what they got before.",
    command: () => command("topics", "compact", fullName(place)),
    verb: "Compact",
    run: () => send("PUT", topicPath(place, "compaction")),
    done: `The compaction of ${place.topic} has begun`,
  });
}

export function terminateTopic(place, isPartitioned) {
  return ask({
    title: `Terminate ${place.topic}`,
    text: "It takes no more messages, for good: its producers are refused. What is stored stays and is consumed as before.",
    typed: place.topic,
    command: () => command("topics", isPartitioned ? "partitioned-terminate" : "terminate", fullName(place)),
    verb: "Terminate",
    isDangerous: true,
    run: () => send("POST", isPartitioned ? topicPath(place, "terminate", "partitions") : topicPath(place, "terminate")),
    done: `${place.topic} is terminated`,
  });
}

export function deleteTopic(place, isPartitioned) {
  return ask({
    title: `Delete the topic ${place.topic}`,
    text: `All its messages and subscriptions${isPartitioned ? ", in all partitions," : ""} are gone for good. It is refused while clients are connected.`,
    typed: place.topic,
    verb: "Delete topic",
    isDangerous: true,
    command: () => command("topics", isPartitioned ? "delete-partitioned-topic" : "delete", fullName(place)),
    run: () => send("DELETE", isPartitioned ? topicPath(place, "partitions") : topicPath(place)),
    done: `The topic ${place.topic} is deleted`,
  });
}

// ---- namespaces -------------------------------------------------------------------------------------------------

const ofNamespace = (place, ...more) => path("namespaces", place.tenant, place.namespace, ...more);

export function unloadNamespace(place) {
  return ask({
    title: `Unload ${place.tenant}/${place.namespace}`,
    text: "Producers and consumers of all its topics are disconnected and connect again by themselves; nothing is lost.",
    verb: "Unload",
    command: () => command("namespaces", "unload", `${place.tenant}/${place.namespace}`),
    run: () => send("PUT", ofNamespace(place, "unload")),
    done: `${place.tenant}/${place.namespace} is unloaded`,
  });
}

export function clearNamespace(place, backlog) {
  const name = `${place.tenant}/${place.namespace}`;
  return ask({
    title: `Clear all backlogs of ${name}`,
    text: `The backlog of all subscriptions of all its topics (${count(backlog)}) will count as acknowledged: consumers never get it.`,
    typed: name,
    verb: "Clear all backlogs",
    isDangerous: true,
    command: () => command("namespaces", "clear-backlog", "--force", name),
    run: () => send("POST", ofNamespace(place, "clearBacklog")),
    done: `The backlogs of ${name} are cleared`,
  });
}
