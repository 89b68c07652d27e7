// What the page does to namespaces, topics and subscriptions: each asks first, and says what will happen.

import { ask } from "./dialogs.js";
import { count, plural } from "./dom.js";
import { topicPath } from "./names.js";
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

export function clearBacklog(place, backlog) {
  return ask({
    title: `Clear the backlog of ${place.subscription}`,
    text: `${plural(backlog, "entry").replace("entrys", "entries")} of the subscription will count as acknowledged: its consumers never get them.`,
    typed: place.subscription,
    verb: "Clear backlog",
    isDangerous: true,
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
    run: (values) => send("POST", ofSubscription(place, "skip", String(Number(values.number)))),
    done: (values) => `Skipped ${count(Number(values.number))} of ${place.subscription}`,
  });
}

export function resetCursor(place, isPartitioned) {
  const kinds = [
    ["earliest", "The oldest message that is kept"],
    ["time", "A time of publishing"],
    ...(isPartitioned ? [] : [["id", "A message id"]]),
  ];
  const target = (values) => {
    if (values.kind === "earliest") return ["0"];
    if (values.kind === "time") return [String(new Date(values.time).getTime())];
    const found = /^\s*(-?\d+):(-?\d+)(:-?\d+)*\s*$/.exec(values.id);
    if (!found) throw new Error("A message id is written LEDGER:ENTRY, such as 12:345");
    return { ledgerId: Number(found[1]), entryId: Number(found[2]), partitionIndex: -1 };
  };
  return ask({
    title: `Reset the cursor of ${place.subscription}`,
    text: "Its consumers are disconnected for a moment and get everything from there on, again if need be; what is before it counts as acknowledged.",
    fields: [
      { name: "kind", label: "To", options: kinds },
      { name: "time", label: "Published at or after (your local time)", type: "datetime-local", step: 1, value: localTime(Date.now() - 3_600_000), when: (values) => values.kind === "time" },
      { name: "id", label: "Message id (ledger:entry)", placeholder: "12:345", when: (values) => values.kind === "id" },
    ],
    verb: "Reset cursor",
    isDangerous: true,
    run: (values) => {
      const to = target(values);
      return Array.isArray(to) ? send("POST", ofSubscription(place, "resetcursor", ...to)) : send("POST", ofSubscription(place, "resetcursor"), to);
    },
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
    run: () => send("PUT", topicPath(place, "unload")),
    done: `${place.topic} is unloaded`,
  });
}

export function deleteTopic(place, isPartitioned) {
  return ask({
    title: `Delete the topic ${place.topic}`,
    text: `All its messages and subscriptions${isPartitioned ? ", in all partitions," : ""} are gone for good. It is refused while clients are connected.`,
    typed: place.topic,
    verb: "Delete topic",
    isDangerous: true,
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
    run: () => send("POST", ofNamespace(place, "clearBacklog")),
    done: `The backlogs of ${name} are cleared`,
  });
}
