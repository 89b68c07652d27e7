// Policies, tenants, namespaces and permissions that are changed: each asks first, and shows the command that does the same.

import { command } from "./commands.js";
import { ask } from "./dialogs.js";
import { words } from "./dom.js";
import { fullName, topicPath } from "./names.js";
import { path, send } from "./rest.js";

const listOf = (text) => text.split(",").map((word) => word.trim()).filter(Boolean);
const isNamespace = (place) => place.topic === undefined;
const groupOf = (place) => (isNamespace(place) ? "namespaces" : "topics");
const nameOf = (place) => (isNamespace(place) ? `${place.tenant}/${place.namespace}` : fullName(place));
const within = (place, ...more) => (isNamespace(place) ? path("namespaces", place.tenant, place.namespace, ...more) : topicPath(place, ...more));

// ---- policies ---------------------------------------------------------------------------------------------------

const YES_NO = [
  ["true", "yes"],
  ["false", "no"],
];
const NUMBERS = ["NUMBER", "COUNT", "POSITIVE", "FRACTION", "BYTES", "MIB", "SECONDS", "MILLISECONDS", "MINUTES"];
const UNITS = { BYTES: "bytes", MIB: "MiB", SECONDS: "seconds", MILLISECONDS: "milliseconds", MINUTES: "minutes" };
/** How a command writes a number that the REST API has in this unit; -1 is no limit in each. */
const WRITTEN = {
  MIB: (value) => `${value}M`,
  MINUTES: (value) => `${value}m`,
  SECONDS: (value) => `${value}s`,
  MILLISECONDS: (value) => `${Math.round(value / 1000)}s`,
};
const QUOTAS = "backlog_quota_map";
const QUOTA_TYPES = [
  ["destination_storage", "size of the backlog"],
  ["message_age", "age of the backlog"],
];

const isSwitch = (option) => option.written === "FLAG" || option.written === "SWITCH";

function fieldOf(option, index, current, title) {
  const value = option.member === "" ? current : (current ?? {})[option.member];
  const unit = UNITS[option.written] ? ` (${UNITS[option.written]})` : "";
  const common = { name: `option${index}`, label: `${option.member === "" ? title : words(option.member)}${unit}`, hint: option.help };
  if (isSwitch(option)) return { ...common, options: YES_NO, value: String(value ?? false) };
  const text = Array.isArray(value) ? value.join(",") : (value ?? "");
  if (NUMBERS.includes(option.written)) return { ...common, type: "number", step: option.written === "FRACTION" ? "any" : 1, value: String(text), isRequired: !option.isOptional };
  return { ...common, value: String(text), isRequired: !option.isOptional };
}

function valueOf(option, text) {
  if (isSwitch(option)) return text === "true";
  if (text === "") return undefined;
  if (NUMBERS.includes(option.written)) return Number(text);
  if (option.written === "WORDS") return listOf(text);
  return option.written === "UPPER_CASE" ? text.toUpperCase() : text;
}

function bodyOf(options, values) {
  const members = options.map((option, index) => [option.member, valueOf(option, values[`option${index}`])]).filter((pair) => pair[1] !== undefined);
  return options[0].member === "" ? members[0]?.[1] : Object.fromEntries(members);
}

function wordsOf(options, values) {
  return options.flatMap((option, index) => {
    const value = valueOf(option, values[`option${index}`]);
    if (value === undefined) return [];
    if (option.written === "FLAG") return value ? [option.flag] : [];
    if (option.written === "SWITCH") return [value ? option.flag : option.off];
    const written = Array.isArray(value) ? value.join(",") : value >= 0 ? (WRITTEN[option.written]?.(value) ?? String(value)) : String(value);
    return [option.flag, written];
  });
}

/** The level of a policy's row that belongs to a place; null where the page cannot set it. */
export function levelOf(row, place) {
  const level = isNamespace(place) ? row.namespace : row.topic;
  return level && level.command && row.options.length ? level : null;
}

function urlOf(row, level, place, values, query = {}) {
  const words = { ...query, ...(row.name === QUOTAS ? { backlogQuotaType: values.quota } : {}) };
  const last = row.name === QUOTAS ? "backlogQuota" : level.path;
  const text = new URLSearchParams(words).toString();
  return `${within(place, ...last.split("/"))}${text ? `?${text}` : ""}`;
}

const quotaField = (row) => (row.name === QUOTAS ? [{ name: "quota", label: "Quota of the", options: QUOTA_TYPES }] : []);
const quotaWords = (row, values) => (row.name === QUOTAS ? ["--type", values.quota] : []);

export function changePolicy(place, row, current, title) {
  const level = levelOf(row, place);
  const options = row.options.map((option) => (option.member === "" && level.flag ? { ...option, flag: level.flag } : option));
  const own = row.name === QUOTAS ? (current?.destination_storage ?? current) : current;
  return ask({
    title: `Set ${title} of ${place.topic ?? nameOf(place)}`,
    text: row.meaning + (row.withoutEffect ? ` Kept, without effect here: ${row.withoutEffect}` : ""),
    fields: [...quotaField(row), ...options.map((option, index) => fieldOf(option, index, own, title))],
    command: (values) => command(groupOf(place), `set-${level.command}`, nameOf(place), ...wordsOf(options, values), ...quotaWords(row, values)),
    verb: "Set",
    run: (values) => {
      const body = bodyOf(options, values);
      if (level.parameter) return send(level.method, urlOf(row, level, place, values, { [level.parameter]: body }));
      return send(level.method, urlOf(row, level, place, values), body);
    },
    done: `${title} is set`,
  });
}

export function removePolicy(place, row, title) {
  const level = levelOf(row, place);
  return ask({
    title: `Remove ${title} of ${place.topic ?? nameOf(place)}`,
    text: `What is above it counts then: ${isNamespace(place) ? "the broker's configuration" : "the namespace, or the broker's configuration"}.`,
    fields: quotaField(row),
    command: (values) => command(groupOf(place), `remove-${level.command}`, nameOf(place), ...quotaWords(row, values)),
    verb: "Remove",
    isDangerous: true,
    run: (values) => {
      if (level.removal) return send("DELETE", within(place, ...level.removal.split("/")));
      return level.canDelete ? send("DELETE", urlOf(row, level, place, values)) : send("POST", urlOf(row, level, place, values), null);
    },
    done: `${title} is removed`,
  });
}

// ---- tenants and namespaces ---------------------------------------------------------------------------------------

const TENANT_FIELDS = (tenant) => [
  { name: "roles", label: "Roles that administrate it, by commas", value: tenant.adminRoles.join(",") },
  { name: "clusters", label: "Clusters, by commas", value: tenant.allowedClusters.join(","), isRequired: true },
];
const tenantBody = (values) => ({ adminRoles: listOf(values.roles), allowedClusters: listOf(values.clusters) });
const tenantWords = (values) => [...(listOf(values.roles).length ? ["--admin-roles", listOf(values.roles).join(",")] : []), "--allowed-clusters", listOf(values.clusters).join(",")];

export async function createTenant(cluster) {
  let name;
  const isDone = await ask({
    title: "Create a tenant",
    text: "A tenant has namespaces, and roles that administrate them.",
    fields: [{ name: "name", label: "Name", isRequired: true }, ...TENANT_FIELDS({ adminRoles: [], allowedClusters: [cluster] })],
    command: (values) => command("tenants", "create", values.name, ...tenantWords(values)),
    verb: "Create",
    run: (values) => send("PUT", path("tenants", (name = values.name)), tenantBody(values)),
    done: (values) => `${values.name} is created`,
  });
  return isDone ? { tenant: name } : undefined;
}

export const changeTenant = ({ tenant }, current) =>
  ask({
    title: `Change the tenant ${tenant}`,
    text: "Its roles and clusters are replaced by these.",
    fields: TENANT_FIELDS(current),
    command: (values) => command("tenants", "update", tenant, ...tenantWords(values)),
    verb: "Change",
    run: (values) => send("POST", path("tenants", tenant), tenantBody(values)),
    done: `${tenant} is changed`,
  });

export const deleteTenant = ({ tenant }) =>
  ask({
    title: `Delete the tenant ${tenant}`,
    text: "It is refused while the tenant has namespaces.",
    typed: tenant,
    command: () => command("tenants", "delete", tenant),
    verb: "Delete tenant",
    isDangerous: true,
    run: () => send("DELETE", path("tenants", tenant)),
    done: `${tenant} is deleted`,
  });

export async function createNamespace({ tenant }) {
  let namespace;
  const isDone = await ask({
    title: `Create a namespace of ${tenant}`,
    text: "A namespace has topics, and policies that hold for all of them.",
    fields: [{ name: "name", label: "Name", isRequired: true }],
    command: (values) => command("namespaces", "create", `${tenant}/${values.name}`),
    verb: "Create",
    run: (values) => send("PUT", path("namespaces", tenant, (namespace = values.name)), {}),
    done: (values) => `${tenant}/${values.name} is created`,
  });
  return isDone ? { tenant, namespace } : undefined;
}

export const deleteNamespace = (place) =>
  ask({
    title: `Delete the namespace ${nameOf(place)}`,
    text: "It is refused while the namespace has topics.",
    typed: nameOf(place),
    command: () => command("namespaces", "delete", nameOf(place)),
    verb: "Delete namespace",
    isDangerous: true,
    run: () => send("DELETE", path("namespaces", place.tenant, place.namespace)),
    done: `${nameOf(place)} is deleted`,
  });

// ---- permissions --------------------------------------------------------------------------------------------------

const verbs = (place) => (isNamespace(place) ? ["grant-permission", "revoke-permission"] : ["grant-permissions", "revoke-permissions"]);

export const grant = (place, role = "", actions = ["produce", "consume"]) =>
  ask({
    title: role ? `Change what ${role} may do` : "Grant a role permissions",
    text: `With ${nameOf(place)}, in place of what the role had there.`,
    fields: [
      { name: "role", label: "Role", value: role, isRequired: true },
      { name: "actions", label: "Actions, by commas", value: actions.join(","), hint: "produce, consume, functions, sources, sinks, packages", isRequired: true },
    ],
    command: (values) => command(groupOf(place), verbs(place)[0], nameOf(place), "--role", values.role, "--actions", listOf(values.actions).join(",")),
    verb: "Grant",
    run: (values) => send("POST", within(place, "permissions", values.role), listOf(values.actions)),
    done: (values) => `${values.role} may ${listOf(values.actions).join(", ")}`,
  });

export const revoke = (place, role) =>
  ask({
    title: `Revoke the permissions of ${role}`,
    text: `With ${nameOf(place)}. The role keeps what it has by other levels.`,
    command: () => command(groupOf(place), verbs(place)[1], nameOf(place), "--role", role),
    verb: "Revoke",
    isDangerous: true,
    run: () => send("DELETE", within(place, "permissions", role)),
    done: `The permissions of ${role} are revoked`,
  });
