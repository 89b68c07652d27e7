// The page: places, the tree beside them, the round of questions to the broker, keys, signing in, light and dark.

import { Broker } from "./broker.js";
import { showConnect } from "./connect.js";
import { askCredentials, askPlace, note, problemText, showKeys } from "./dialogs.js";
import { h, setText, storage } from "./dom.js";
import { showJson } from "./json.js";
import { address, placeNamed, placeOf } from "./names.js";
import { Namespace } from "./namespace.js";
import { Overview, Tenant } from "./overview.js";
import { answered, basicHeader, beginView, get, getText, isSignedIn, onStranger, path, schemes, signIn, signOut, signedInAs, tokenHeader } from "./rest.js";
import { Subscription } from "./subscription.js";
import { Topic } from "./topic.js";

const ROUND_MS = 2000;
/** A round takes at most this share of the time, however long the broker needs for its answer. */
const MOST_SHARE = 0.1;
/** A broker that takes longer than this counts as gone, until it answers. */
const SLOW_MS = 6000;
const TREE_MS = 15_000;
const MOST_OPEN = 12;
const THEMES = ["system", "light", "dark"];
const THEME_KEY = "spark-pulsar-theme";
const element = (id) => document.getElementById(id);

class App {
  constructor() {
    this.broker = new Broker();
    this.cluster = "";
    this.version = "";
    this.view = null;
    this.isPaused = false;
    this.isStranger = false;
    this.treeLooked = 0;
    this.tenants = [];
    this.namespaces = new Map();
    this.opened = new Set();
    this.timer = 0;
    this.aborting = new AbortController();
  }

  async start() {
    this.applyTheme(storage("localStorage")?.getItem(THEME_KEY) || "system");
    element("theme").addEventListener("click", () => this.nextTheme());
    document.querySelector(".skip-link").addEventListener("click", (event) => {
      event.preventDefault(); // its address is no place of the page
      element("main-content").focus();
    });
    element("help").addEventListener("click", () => showKeys());
    element("go").addEventListener("click", () => this.goTo());
    element("connect").addEventListener("click", () => showConnect(this.place));
    element("json").addEventListener("click", () => showJson(this.view.title));
    element("places").addEventListener("click", () => this.showTree(!document.body.classList.contains("with-tree")));
    element("sign").addEventListener("click", () => this.sign());
    onStranger((reason) => this.stranger(reason));
    addEventListener("hashchange", () => this.route());
    document.addEventListener("visibilitychange", () => this.refreshSoon());
    document.addEventListener("keydown", (event) => this.key(event));
    this.drawSign();
    this.route();
  }

  // ---- places -----------------------------------------------------------------------------------------------------

  go(hash) {
    if (location.hash === hash) this.route();
    else location.hash = hash;
  }

  route() {
    const place = placeOf(location.hash);
    if (place === null) {
      this.go("#/");
      return;
    }
    this.showTree(false);
    const same = this.place && ["tenant", "namespace", "domain", "topic", "subscription"].every((name) => this.place[name] === place[name]);
    this.place = place;
    if (same && this.view?.show) this.view.show(place);
    else if (!same) this.open(place);
    this.drawCrumbs();
    this.drawTree();
    this.refreshSoon();
  }

  open(place) {
    const [kind] = [
      [Subscription, place.subscription],
      [Topic, place.topic],
      [Namespace, place.namespace],
      [Tenant, place.tenant],
      [Overview, true],
    ].find((each) => each[1]);
    this.view?.close();
    beginView();
    this.view = new kind(place, this);
    const main = element("main-content");
    main.replaceChildren(this.view.element);
    scrollTo(0, 0);
    document.title = `${this.view.title} – spark-pulsar`;
    if (this.wasOpened) main.focus({ preventScroll: true });
    this.wasOpened = true;
  }

  /** Goes to a place that was made; the tree is read anew. */
  made(place) {
    if (!place) return;
    this.treeLooked = 0;
    this.go(address(place));
  }

  async goTo() {
    const known = [...this.broker.namespaces.keys(), ...this.broker.topics.keys()];
    const name = await askPlace(known);
    if (name === undefined) return;
    const place = placeNamed(name);
    if (place) this.go(address(place));
    else note(`${name || "Nothing"} is no name of a tenant, namespace or topic`, "problem");
  }

  up() {
    const { tenant, namespace, domain, topic, subscription } = this.place;
    if (subscription !== undefined) this.go(address({ tenant, namespace, domain, topic }));
    else if (topic !== undefined) this.go(address({ tenant, namespace }));
    else if (namespace !== undefined) this.go(address({ tenant }));
    else this.go("#/");
  }

  drawCrumbs() {
    const { tenant, namespace, domain, topic, subscription } = this.place;
    const parts = [[this.cluster || "cluster", "#/"]];
    if (tenant !== undefined) parts.push([tenant, address({ tenant })]);
    if (namespace !== undefined) parts.push([namespace, address({ tenant, namespace })]);
    if (topic !== undefined) parts.push([topic, address({ tenant, namespace, domain, topic })]);
    if (subscription !== undefined) parts.push([subscription, address(this.place)]);
    const items = parts.map(([text, href], index) => h("li", {}, h("a", { href, title: text, "aria-current": index === parts.length - 1 ? "page" : undefined }, text)));
    element("crumbs").replaceChildren(h("ol", {}, items));
  }

  // ---- the tree ---------------------------------------------------------------------------------------------------

  /** On a narrow screen the tree is shown when it is wanted. */
  showTree(isShown) {
    document.body.classList.toggle("with-tree", isShown);
    element("places").setAttribute("aria-expanded", String(isShown));
  }

  /** Reads the tree now and then; what was broken off, or got no answer, is read by the next round. */
  async lookAtTree(signal) {
    if (Date.now() - this.treeLooked < TREE_MS) return;
    const begin = Date.now();
    await this.readTree(signal);
    this.treeLooked = begin;
  }

  async readTree(signal) {
    const own = this.place.tenant;
    const quiet = (call, otherwise) =>
      call.catch((error) => {
        if (signal.aborted || error.isStranger || error.status === 0) throw error;
        return otherwise;
      });
    if (!this.cluster) {
      this.cluster = (await quiet(get(path("clusters"), signal), []))[0] ?? "";
      this.version = await quiet(getText(path("brokers", "version"), signal), "");
    }
    this.treeRefusal = null;
    const refused = (error) => {
      if (!error.isRefusal || error.isStranger) throw error;
      this.treeRefusal = error;
      return own === undefined ? [] : [own];
    };
    const tenants = await quiet(get(path("tenants"), signal).catch(refused), own === undefined ? [] : [own]);
    this.tenants = tenants;
    const wanted = tenants.filter((tenant, index) => index < MOST_OPEN || this.opened.has(tenant) || tenant === own);
    await Promise.all(wanted.map(async (tenant) => this.namespaces.set(tenant, await quiet(get(path("namespaces", tenant), signal), this.namespaces.get(tenant) ?? []))));
    this.drawCrumbs();
    this.drawTree();
    if (this.view.head && !this.place.tenant) setText(this.view.element.querySelector("h1"), this.cluster);
  }

  drawTree() {
    const reason = this.treeRefusal ? problemText(this.treeRefusal) : "";
    const drawn = JSON.stringify([this.tenants, [...this.namespaces], this.place, [...this.opened], reason]);
    if (drawn === this.drawnTree) return;
    this.drawnTree = drawn;
    const focused = document.activeElement?.closest("#tree") ? document.activeElement.getAttribute("href") : null;
    const current = (isIt) => (isIt ? "page" : undefined);
    const { tenant: own, namespace } = this.place;
    const items = this.tenants.map((tenant) => {
      const names = this.namespaces.get(tenant);
      const inner = (names ?? []).map((full) => {
        const name = full.slice(tenant.length + 1);
        return h("li", {}, h("a", { href: address({ tenant, namespace: name }), title: full, "aria-current": current(tenant === own && name === namespace) }, name));
      });
      const link = h("a", { class: "tenant", href: address({ tenant }), title: tenant, "aria-current": current(tenant === own && namespace === undefined) }, tenant);
      return h("li", {}, link, inner.length ? h("ul", {}, inner) : null);
    });
    const overview = h("a", { class: "tenant", href: "#/", "aria-current": current(own === undefined) }, "Overview");
    element("tree").replaceChildren(h("ul", {}, h("li", {}, overview)), h("h2", {}, "Tenants"), h("ul", {}, items));
    if (reason) {
      const goTo = h("button", { type: "button", onclick: () => this.goTo() }, "Go to …");
      element("tree").append(h("p", { class: "hint" }, "The list of tenants is for super users: open a tenant, namespace or topic of yours by name. ", h("span", { class: "reason" }, reason)), goTo);
    }
    if (focused) [...element("tree").querySelectorAll("a")].find((each) => each.getAttribute("href") === focused)?.focus();
  }

  // ---- the round of questions -------------------------------------------------------------------------------------

  /** Asks soon: what is shown may have changed. */
  refreshSoon() {
    clearTimeout(this.timer);
    this.aborting.abort();
    this.aborting = new AbortController();
    if (document.hidden || this.isPaused || this.isStranger) {
      this.pulse(this.isStranger ? "signed out" : "paused", "");
      return;
    }
    this.round(this.aborting.signal);
  }

  async round(signal) {
    const begin = performance.now();
    const before = answered();
    const slow = setTimeout(() => signal.aborted || this.gone("The broker does not answer"), SLOW_MS);
    try {
      await Promise.all([this.view.refresh(signal), this.lookAtTree(signal)]);
      // A view that had nothing to request, as messages that are not followed, says nothing of the broker.
      if (answered() === before) await getText(path("brokers", "version"), signal);
      if (signal.aborted) return;
      this.pulse("live", "good");
    } catch (error) {
      if (signal.aborted || this.isStranger) return;
      if (error.status === 0) this.gone(problemText(error));
      else this.trouble(problemText(error));
    } finally {
      clearTimeout(slow);
    }
    if (this.isStranger) return;
    const wait = Math.max(ROUND_MS, (performance.now() - begin) / MOST_SHARE);
    this.timer = setTimeout(() => this.round(signal), wait);
  }

  /** Says what went wrong, once. */
  trouble(reason) {
    if (element("pulse").title !== reason) note(reason, "problem");
    this.pulse("trouble", "bad", reason);
  }

  /** Says that there is no broker, and greys what was told by it. */
  gone(reason) {
    this.pulse("no answer", "bad", reason);
    document.body.dataset.link = "gone";
    this.view.gone?.("no answer");
  }

  pulse(text, kind, title = "") {
    document.body.dataset.link = kind === "good" ? "live" : "";
    const pulse = element("pulse");
    setText(pulse, text);
    pulse.className = `pulse ${kind}`;
    pulse.title = title;
  }

  // ---- signing in -------------------------------------------------------------------------------------------------

  stranger(reason) {
    if (this.isStranger) return;
    this.isStranger = true;
    this.pulse("signed out", "bad", reason);
    this.sign(isSignedIn() ? reason : "");
  }

  async sign(reason = "") {
    if (isSignedIn() && !this.isStranger) {
      signOut();
      this.forget();
      note("Signed out");
      this.refreshSoon();
      return;
    }
    if (this.isAsking) return;
    this.isAsking = true;
    const header = await askCredentials(schemes, { basic: basicHeader, token: tokenHeader }, reason);
    this.isAsking = false;
    if (header === undefined) return;
    signIn(header);
    this.isStranger = false;
    this.forget();
    this.refreshSoon();
  }

  /** Forgets what was read as another role. */
  forget() {
    this.broker = new Broker();
    this.treeLooked = 0;
    this.tenants = [];
    this.namespaces.clear();
    this.drawSign();
    this.open(this.place);
    this.drawTree();
  }

  drawSign() {
    setText(element("sign"), isSignedIn() ? `Sign out ${signedInAs()}` : "Sign in");
  }

  // ---- keys -------------------------------------------------------------------------------------------------------

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const isTyping = event.target.closest("input, select, textarea");
    if (event.key === "Escape") {
      if (isTyping) event.target.blur();
      else this.up();
      return;
    }
    if (isTyping) return;
    const action = {
      "/": () => this.view.filterable?.focusFilter?.(),
      "?": () => showKeys(),
      g: () => this.goTo(),
      c: () => showConnect(this.place),
      j: () => showJson(this.view.title),
      t: () => this.nextTheme(),
      p: () => this.pause(),
      n: () => this.view.filterable?.turn?.(true),
      b: () => this.view.filterable?.turn?.(false),
      ArrowDown: () => this.firstRow(event),
    }[event.key];
    if (action) {
      if (event.key !== "ArrowDown") event.preventDefault();
      action();
    } else if (/^[1-9]$/.test(event.key)) {
      this.view.tabs?.press(Number(event.key));
    }
  }

  /** From nowhere in particular the arrow goes to the first row. */
  firstRow(event) {
    if (event.target !== document.body && event.target !== element("main-content")) return;
    const table = this.view.filterable?.table ?? this.view.filterable ?? this.view.namespaces?.table;
    if (!table?.focusRow) return;
    event.preventDefault();
    table.focusRow(table.active);
  }

  pause() {
    this.isPaused = !this.isPaused;
    this.refreshSoon();
  }

  // ---- light and dark ---------------------------------------------------------------------------------------------

  nextTheme() {
    this.applyTheme(THEMES[(THEMES.indexOf(this.theme) + 1) % THEMES.length]);
  }

  applyTheme(theme) {
    this.theme = THEMES.includes(theme) ? theme : "system";
    storage("localStorage")?.setItem(THEME_KEY, this.theme);
    if (this.theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = this.theme;
    const names = { system: "Auto", light: "Light", dark: "Dark" };
    element("theme").replaceChildren(names[this.theme], h("kbd", {}, "t"));
    element("theme").setAttribute("aria-label", `Colours: ${names[this.theme]}`);
  }
}

new App().start();
