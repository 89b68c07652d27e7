// Calls of the admin API, with the credentials that the user gave. They are kept for the life of the tab, nowhere else.

import { base64, storage } from "./dom.js";

const KEPT = "spark-pulsar-authorization";
/** Whether `spark-pulsar page` serves this, and signs in by itself. */
export const isServedByPage = document.documentElement.dataset.server === "page";
const PATIENCE_MS = 65_000;
/** Time for which a refused question is not asked again: each refusal is a line of the broker's audit log. */
const REFUSED_MS = 60_000;
const MOST_REFUSED = 500;
const refused = new Map();
const HTTP_BAD_GATEWAY = 502;
/** Addresses that are kept for the view that reads them. */
const MOST_READ = 200;
const kept = storage("sessionStorage");
let authorization = kept?.getItem(KEPT) ?? null;
/** Addresses that were read since the view was opened. */
const read = new Set();

/** The number of answers of the broker since the page was opened. */
let answers = 0;

export const answered = () => answers;
export const requested = () => [...read].sort();
export const beginView = () => read.clear();

export class RestError extends Error {
  constructor(status, reason, call, isStranger) {
    super(reason);
    this.status = status;
    this.call = call;
    /** The broker does not know who asks, as opposed to: it knows, and refuses. */
    this.isStranger = isStranger;
  }

  get isRefusal() {
    return this.status === 401 || this.status === 403;
  }
}

/** Schemes that the broker offers to those it does not know, from WWW-Authenticate. */
export let schemes = [];
const listeners = new Set();

export const isSignedIn = () => authorization !== null;
/** Scheme of the credentials, Bearer or Basic; empty without any. */
export const schemeSignedIn = () => authorization?.split(" ")[0] ?? "";
export const onStranger = (listener) => listeners.add(listener);

export function signIn(header) {
  authorization = header;
  refused.clear();
  kept?.setItem(KEPT, header);
}

export function signOut() {
  authorization = null;
  refused.clear();
  kept?.removeItem(KEPT);
}

export const tokenHeader = (token) => `Bearer ${token.trim().replace(/^Bearer\s+/i, "")}`;

export function basicHeader(user, password) {
  return `Basic ${base64(new TextEncoder().encode(`${user}:${password}`))}`;
}

/** Name of who is signed in, as far as the credentials tell. */
export function signedInAs() {
  if (authorization === null) return "";
  const [scheme, value] = authorization.split(" ");
  try {
    if (scheme === "Basic") return atob(value).split(":")[0];
    const claims = value.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
    return String(JSON.parse(atob(claims)).sub || "token");
  } catch {
    return "token";
  }
}

/** A name as a segment of a path: a browser takes dots for steps in it, unless a parameter, empty here, follows. */
const segment = (name) => (name === "." || name === ".." ? `${name};` : encodeURIComponent(name));

/** Names as segments of a path. */
export const segments = (...names) => names.map(segment).join("/");

/** Path of a name's segments below /admin/v2. */
export const path = (...names) => `/admin/v2/${segments(...names)}`;

/** The token that is signed in with; empty without one. A WebSocket of a browser has no other place for it than its URL. */
export const authorizationToken = () => (authorization?.startsWith("Bearer ") ? authorization.slice("Bearer ".length) : "");

async function fetched(method, url, body, signal) {
  const known = method === "GET" ? refused.get(url) : undefined;
  if (known && known.until > Date.now()) throw known.error;
  const headers = {};
  if (authorization !== null) headers.Authorization = authorization;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const limits = [AbortSignal.timeout(PATIENCE_MS)];
  if (signal) limits.push(signal);
  // Without credentials of the browser it never asks for a password itself; over TLS they are the client's certificate.
  // At `spark-pulsar page` they are the key of its run, and it signs in.
  const credentials = location.protocol === "https:" || isServedByPage ? "same-origin" : "omit";
  let answer;
  try {
    answer = await fetch(url, {
      method,
      headers,
      credentials,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.any(limits),
      redirect: "error",
      cache: "no-store",
    });
  } catch (error) {
    if (signal && signal.aborted) throw error;
    throw new RestError(0, error.name === "TimeoutError" ? "The broker does not answer" : "The broker cannot be reached", `${method} ${url}`, false);
  }
  // The server of `spark-pulsar page` answers so for a Pulsar that does not.
  const isGone = isServedByPage && answer.status === HTTP_BAD_GATEWAY;
  if (!isGone) answers += 1;
  if (answer.ok) return answer;
  const text = await answer.text();
  let reason = text;
  try {
    reason = JSON.parse(text).reason || text;
  } catch {
    // not of the admin API: a proxy's page
  }
  if (isGone) throw new RestError(0, String(reason).slice(0, 600), `${method} ${url}`, false);
  const challenge = answer.headers.get("WWW-Authenticate") || "";
  const isStranger = !isServedByPage && answer.status === 401 && (challenge !== "" || reason === "Authentication required" || reason === "Failed to authenticate");
  if (isStranger) {
    schemes = [...challenge.matchAll(/(Bearer|Basic) /g)].map((found) => found[1]);
    for (const listener of listeners) listener(reason);
  }
  const error = new RestError(answer.status, String(reason).slice(0, 600) || `Status ${answer.status}`, `${method} ${url}`, isStranger);
  if (method === "GET" && error.isRefusal && !isStranger) {
    if (refused.size >= MOST_REFUSED) refused.delete(refused.keys().next().value);
    refused.set(url, { error, until: Date.now() + REFUSED_MS });
  }
  throw error;
}

export async function get(url, signal) {
  const answer = await fetched("GET", url, undefined, signal);
  if (url.startsWith("/admin/") && read.size < MOST_READ) read.add(url);
  const text = await answer.text();
  return text === "" ? null : JSON.parse(text);
}

export async function getText(url, signal) {
  return (await fetched("GET", url, undefined, signal)).text();
}

/** Gets a message: its payload and what the headers tell of it. */
export async function getMessage(url, signal) {
  const answer = await fetched("GET", url, undefined, signal);
  return { headers: answer.headers, payload: new Uint8Array(await answer.arrayBuffer()) };
}

export async function send(method, url, body) {
  const answer = await fetched(method, url, body);
  const text = await answer.text();
  try {
    return text === "" ? null : JSON.parse(text);
  } catch {
    return text;
  }
}
