// Names of topics, and the addresses of places in this page: #/tenant/namespace/domain/topic/subscription.

import { path } from "./rest.js";

const PARTITION = /^(.+)-partition-(0|[1-9][0-9]*)$/s;

/** Splits a full name of a topic, or of a partition. */
export function parsed(full) {
  const at = full.indexOf("://");
  const domain = full.slice(0, at);
  const [tenant, namespace, ...rest] = full.slice(at + 3).split("/");
  return { domain, tenant, namespace, topic: rest.join("/") };
}

/** Name and number of a partition; the number is -1 for any other topic. */
export function partitionOf(topic) {
  const found = PARTITION.exec(topic);
  return found ? { base: found[1], index: Number(found[2]) } : { base: topic, index: -1 };
}

export const fullName = (place) => `${place.domain}://${place.tenant}/${place.namespace}/${place.topic}`;
export const topicPath = (place, ...more) => path(place.domain, place.tenant, place.namespace, place.topic, ...more);

/** Address of a place; `query` are settings of its view, by name. */
export function address(place, query = {}) {
  const parts = [];
  for (const name of ["tenant", "namespace", "domain", "topic", "subscription"]) {
    if (place[name] === undefined) break;
    parts.push(encodeURIComponent(place[name]));
  }
  const settings = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined);
  const words = [place.tab, ...settings.map((pair) => pair.map(encodeURIComponent).join("="))].filter(Boolean);
  return `#/${parts.join("/")}${words.length ? `?${words.join("&")}` : ""}`;
}

/** Keeps a setting of a view in the address, without a step of the browser's history. */
export function keep(place, name, value) {
  place.query = { ...place.query, [name]: value };
  history.replaceState(null, "", address(place, place.query));
}

/** The place that an address names; null for one that names none. */
export function placeOf(hash) {
  const [where, words = ""] = hash.replace(/^#\/?/, "").split("?");
  const parts = where.split("/").filter((part) => part !== "");
  if (parts.length > 5) return null;
  try {
    const [tenant, namespace, domain, topic, subscription] = parts.map(decodeURIComponent);
    if (parts.length === 3 || (domain !== undefined && domain !== "persistent" && domain !== "non-persistent")) return null;
    const tab = words.split("&").find((word) => word !== "" && !word.includes("="));
    const query = Object.fromEntries([...new URLSearchParams(words)].filter(([name]) => name !== tab));
    return { tenant, namespace, domain, topic, subscription, tab, query };
  } catch {
    return null;
  }
}

/** The place that a text of a user names: tenant, tenant/namespace, a topic's short or full name. */
export function placeNamed(text) {
  const name = text.trim();
  if (name === "") return null;
  if (name.includes("://")) {
    const found = parsed(name);
    const isWhole = ["persistent", "non-persistent"].includes(found.domain) && found.namespace && found.topic;
    return isWhole ? found : null;
  }
  const parts = name.split("/");
  if (parts.length === 1) return { tenant: name };
  if (parts.length === 2) return parts[1] ? { tenant: parts[0], namespace: parts[1] } : { tenant: parts[0] };
  return { tenant: parts[0], namespace: parts[1], domain: "persistent", topic: parts.slice(2).join("/") };
}
