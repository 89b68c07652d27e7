// Messages of a topic or of a subscription's backlog: fifty at a time, filtered, followed, copied and downloaded.

import { ask, note, problemText } from "./dialogs.js";
import { bytes, count, h, newId, plural, setText, timeOf, when } from "./dom.js";
import { BacklogSource, TopicSource, Walk, idOf, parsedId } from "./entries.js";
import { address, partitionOf } from "./names.js";
import { Decoder, FORMATS, copy, jsonLine, matcher, recordOf, save } from "./records.js";

const PAGE = 50;
/** What one search reads at most before it says how far it came. */
const SEARCH = { messages: 10_000, entries: 400, ms: 4000 };
const DOWNLOAD = { messages: 200_000, entries: 20_000, ms: 60_000 };
const MOST_DOWNLOADED = 10_000;
/** Partitions of which the messages are merged; of more, one is shown at a time. */
const MOST_MERGED = 16;
const TYPING_MS = 400;
const AGES_MS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Reads where to start: an id, a time, milliseconds, or an age such as 10m; null for an empty text. */
export function startOf(text) {
  const wanted = text.trim();
  if (wanted === "") return null;
  const age = /^(\d+)\s*([smhd])$/.exec(wanted);
  if (age) return { ms: Date.now() - Number(age[1]) * AGES_MS[age[2]] };
  const id = parsedId(wanted);
  if (id) return { id };
  const ms = /^\d{12,}$/.test(wanted) ? Number(wanted) : timeOf(wanted);
  if (Number.isNaN(ms)) throw new Error(`${wanted} is no start: want an id such as 12:345, a time such as 2026-01-31 12:00, or an age such as 10m`);
  return { ms };
}

/** What a search may still read. */
class Budget {
  constructor({ messages, entries, ms }, walk) {
    Object.assign(this, { messages, walk, entries: walk.entries + entries, until: performance.now() + ms });
    this.searched = 0;
  }

  get hasEntries() {
    return this.walk.entries < this.entries && performance.now() < this.until;
  }

  spend() {
    this.searched += 1;
    return this.searched < this.messages && this.walk.entries < this.entries && (this.searched % 100 !== 0 || performance.now() < this.until);
  }
}

export class Messages {
  /** `place` has a subscription or not; `partitions` is the number of partitions of its topic. */
  constructor(place, partitions) {
    this.place = place;
    this.partitions = partitions;
    this.isPeek = place.subscription !== undefined;
    this.decoder = new Decoder(place);
    this.query = { ...place.query };
    this.controls = {};
    this.list = h("ol", { class: "messages" });
    this.problem = h("p", { class: "problem", role: "alert", hidden: true });
    this.state = h("span", { class: "tally", role: "status" });
    this.far = h("p", { class: "hint" });
    this.build();
    if (!this.isPeek) this.refresh = (signal) => this.follow(signal);
    this.aborting = new AbortController();
    this.restart();
  }

  build() {
    const { isPeek, partitions } = this;
    const numbers = Array.from({ length: partitions }, (_, index) => [String(index), String(index)]);
    const isMerged = !isPeek && partitions <= MOST_MERGED;
    const orders = [
      ["", "newest first"],
      ["earliest", "oldest first"],
    ];
    this.following = h("input", { type: "checkbox", id: newId("follow"), onchange: () => this.setFollowing() });
    this.more = h("button", { type: "button", onclick: () => this.next() }, `Next ${PAGE}`);
    this.back = h("button", { type: "button", onclick: () => this.previous() }, `Previous ${PAGE}`);
    this.further = h("button", { type: "button", hidden: true, onclick: () => this.load() }, "Search further");
    const tools = [
      partitions ? this.select("Partition", "partition", isMerged ? [["", "all"], ...numbers] : numbers) : null,
      isPeek ? null : this.select("Order", "order", orders),
      isPeek ? null : h("label", { class: "check", for: this.following.id }, this.following, "Follow"),
      h("button", { type: "button", class: "quiet", onclick: () => this.download() }, "Download …"),
      h("button", { type: "button", class: "quiet", onclick: () => this.restart() }, "Reload"),
    ];
    const filters = [
      isPeek ? null : this.input("Start at", "from", "12:345, 2026-01-31 12:00, 10m"),
      this.input("Key", "key", "contains"),
      this.input("Property", "property", "name=value"),
      this.input("Text", "text", "contains"),
    ];
    this.element = h(
      "section",
      { class: "card messages-card", "aria-label": "Messages" },
      h("header", { class: "table-head" }, h("h2", {}, isPeek ? "Next messages of the backlog" : "Messages"), this.state, h("div", { class: "message-tools" }, tools)),
      h("form", { class: "filters", role: "search", "aria-label": "Filter messages", onsubmit: (event) => (event.preventDefault(), this.changed()) }, filters),
      h("p", { class: "hint" }, isPeek ? "Reading changes nothing: the messages stay in the backlog." : "Reading changes nothing."),
      this.list,
      this.problem,
      this.far,
      h("div", { class: "pages" }, this.back, this.more, this.further),
    );
  }

  select(label, name, options) {
    const id = newId("select");
    const input = h("select", { id, onchange: () => this.set(name, input.value) }, options.map(([value, text]) => h("option", { value }, text)));
    input.value = this.query[name] ?? options[0][0];
    if (input.selectedIndex < 0) input.selectedIndex = 0;
    this.query[name] = input.value;
    this.controls[name] = input;
    return h("label", { for: id, class: "check" }, label, input);
  }

  input(label, name, placeholder) {
    const id = newId("filter");
    const input = h("input", { id, type: "search", placeholder, value: this.query[name] ?? "", autocomplete: "off", spellcheck: "false" });
    input.addEventListener("input", () => {
      this.query[name] = input.value;
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.changed(), TYPING_MS);
    });
    this.controls[name] = input;
    return h("label", { for: id, class: "check" }, label, input);
  }

  set(name, value) {
    this.query[name] = value;
    this.changed();
  }

  /** Reads anew with other settings, and writes them into the address. */
  changed() {
    clearTimeout(this.typing);
    if (!this.isNewest || this.query.from) this.stopFollowing();
    this.place.query = { ...this.query };
    history.replaceState(null, "", address({ ...this.place, tab: "messages" }, this.query));
    this.restart();
  }

  /** Reads anew where an address has other settings than those shown. */
  showQuery(query) {
    const wanted = Object.entries(this.controls).map(([name, control]) => [name, query[name] ?? control.options?.[0].value ?? ""]);
    if (wanted.every(([name, value]) => (this.query[name] ?? "") === value)) return;
    clearTimeout(this.typing);
    for (const [name, value] of wanted) {
      this.controls[name].value = value;
      this.query[name] = value;
    }
    this.stopFollowing();
    this.restart();
  }

  get isNewest() {
    return !this.isPeek && this.query.order !== "earliest";
  }

  get isFiltered() {
    return Boolean(this.query.key || this.query.property || this.query.text);
  }

  // ---- reading ------------------------------------------------------------------------------------------------------

  async restart() {
    this.aborting.abort();
    this.aborting = new AbortController();
    const { signal } = this.aborting;
    this.pages = [];
    this.walk = null;
    this.clear();
    setText(this.state, "reading …");
    try {
      this.sources = this.sourcesOf();
      await Promise.all(this.sources.map((source) => source.read(signal)));
      this.pages = [Walk.from(this.sources, this.isNewest, await this.starts(signal))];
      await this.open();
    } catch (error) {
      this.fail(error, signal);
    }
  }

  /** Shows a problem; the others' end of a walk is none. */
  fail(error, signal) {
    if (signal.aborted) return;
    this.problem.hidden = false;
    setText(this.problem, problemText(error));
    setText(this.state, "");
    this.showButtons(false);
  }

  sourcesOf() {
    const { place, partitions } = this;
    const kind = this.isPeek ? BacklogSource : TopicSource;
    if (!partitions || partitionOf(place.topic).index >= 0) return [new kind(place)];
    const wanted = this.query.partition === "" ? Array.from({ length: partitions }, (_, index) => index) : [this.query.partition];
    return wanted.map((index) => new kind({ ...place, topic: `${place.topic}-partition-${index}` }));
  }

  /** Positions at which the sources begin, by "Start at". */
  async starts(signal) {
    const start = this.isPeek ? null : startOf(this.query.from ?? "");
    if (start === null) return undefined;
    if (start.ms !== undefined) return Promise.all(this.sources.map((source) => source.atTime(start.ms, this.isNewest, signal)));
    const { id } = start;
    const holds = (source) => this.sources.length === 1 || source.partition === id.partition;
    if (!this.sources.some(holds)) throw new Error("Choose a partition: the id names none");
    return this.sources.map((source) => (holds(source) ? source.near(id, this.isNewest) : null));
  }

  clear() {
    this.shown = [];
    this.list.replaceChildren();
    this.problem.hidden = true;
    setText(this.far, "");
    this.showButtons(true);
  }

  /** Opens the page on top of the stack. */
  async open() {
    this.clear();
    this.walk = new Walk(this.sources, this.isNewest, this.pages.at(-1).map((state) => ({ ...state })));
    this.searched = 0;
    await this.load();
  }

  /** Turns to the next page, or to the one before, if there is one. */
  turn(isForward) {
    (isForward ? this.more : this.back).click(); // one that is disabled does nothing
  }

  focusFilter() {
    this.controls.text.focus();
    return true;
  }

  next() {
    this.pages.push(this.walk.saved());
    this.stopFollowing();
    this.list.scrollIntoView({ block: "nearest" });
    return this.open();
  }

  previous() {
    this.pages.pop();
    return this.open();
  }

  /** Reads until the page is full, within the bounds of a search. */
  async load() {
    const { signal } = this.aborting;
    this.showButtons(true);
    setText(this.state, "reading …");
    try {
      const isEnd = await this.collect(this.walk, SEARCH, PAGE - this.shown.length, signal, (message) => {
        this.shown.push(message);
        this.list.append(this.message(message));
      });
      if (!signal.aborted) this.finish(isEnd);
    } catch (error) {
      this.fail(error, signal);
    }
  }

  /** Hands over what fits the filters, up to a number; "end", "full" or "far" says why it stopped. */
  async collect(walk, bounds, most, signal, accept) {
    const budget = new Budget(bounds, walk);
    const fits = matcher(this.query);
    let taken = 0;
    for await (const message of walk.messages(signal)) {
      if (message === null) {
        if (!budget.hasEntries) return walk.isAtEnd ? "end" : "far";
        continue;
      }
      await this.decoder.decode(message, signal);
      if (signal.aborted) throw signal.reason;
      if (walk === this.walk) Object.assign(this, { searched: this.searched + 1, searchedTo: message });
      if (fits(message)) {
        accept(message);
        taken += 1;
      }
      if (taken >= most) return walk.isAtEnd ? "end" : "full";
      if (!budget.spend()) return walk.isAtEnd ? "end" : "far";
    }
    return "end";
  }

  finish(reason) {
    const number = this.shown.length;
    const before = (this.pages.length - 1) * PAGE;
    if (number === 0) setText(this.state, reason === "far" ? "none so far" : "none");
    else setText(this.state, `${count(before + 1)}–${count(before + number)}${reason === "end" ? ", that is all" : ""}`);
    const to = this.searchedTo ? ` ${this.isNewest ? "down" : "up"} to ${idOf(this.searchedTo)}, published ${when(this.searchedTo.published)}` : "";
    const isTold = this.isFiltered || reason === "far";
    setText(this.far, isTold && this.searched ? `Searched ${plural(this.searched, "message")}${to}: ${number} fit.` : "");
    this.showButtons(false, reason);
  }

  showButtons(isReading, reason = "") {
    this.isReading = isReading;
    this.back.disabled = isReading || this.pages.length < 2;
    this.more.disabled = isReading || reason !== "full";
    this.further.hidden = isReading || reason !== "far";
  }

  // ---- following ----------------------------------------------------------------------------------------------------

  /** Begins at the newest message, and goes on with what comes; to page on, it ends. */
  setFollowing() {
    for (const name of ["from", "order"]) {
      this.query[name] = "";
      this.controls[name].value = "";
    }
    this.changed();
  }

  stopFollowing() {
    this.following.checked = false;
  }

  /** Shows what was published since the last round, while the newest messages are in view. */
  async follow(round) {
    if (!this.following.checked || this.isReading) return;
    if (this.list.getBoundingClientRect().top < 0) {
      setText(this.state, "paused: scroll up to follow");
      return;
    }
    const { signal } = this.aborting;
    const either = AbortSignal.any([round, signal]);
    try {
      await this.prepend(either);
      this.problem.hidden = true;
    } catch (error) {
      if (either.aborted) return;
      if (error.status === 0) throw error;
      this.fail(error, signal);
    }
  }

  async prepend(signal) {
    const floors = this.sources.map((source) => source.last);
    await Promise.all(this.sources.map((source) => source.read(signal)));
    const state = Walk.from(this.sources, true).map((at, index) => ({ ...at, floor: floors[index], next: this.sources[index].isAfter(at.next, floors[index]) ? at.next : null }));
    const fresh = [];
    const reason = await this.collect(new Walk(this.sources, true, state), SEARCH, PAGE, signal, (message) => fresh.push(message));
    // More than a page since the last round: what lies between is left out.
    if (reason !== "end") this.list.replaceChildren();
    this.shown = [...fresh, ...(reason === "end" ? this.shown : [])].slice(0, PAGE);
    this.list.prepend(...fresh.map((message) => this.message(message)));
    while (this.list.childElementCount > PAGE) this.list.lastElementChild.remove();
    setText(this.state, `following, ${plural(this.shown.length, "message")}`);
    setText(this.far, "");
  }

  // ---- one message --------------------------------------------------------------------------------------------------

  message(message) {
    const { told, schema } = message;
    const pairs = Object.entries(message.properties);
    const problem = message.problem || told.problem;
    const id = idOf(message);
    return h(
      "li",
      { class: "message" },
      h(
        "div",
        { class: "message-head" },
        h("code", { class: "message-id" }, id),
        h("span", { class: "badge" }, told.kind + (schema && told.kind === schema.type ? ` v${schema.version}` : "")),
        message.state ? h("span", { class: "badge warn" }, message.state) : null,
        message.isCompactedOut ? h("span", { class: "badge warn" }, "compacted out") : null,
        message.key === undefined ? null : h("span", { class: "message-key" }, "key ", h("b", {}, message.key)),
        h("span", { class: "message-facts" }, [when(message.published), message.producer, bytes(message.payload.length)].filter(Boolean).join(" · ")),
        h("button", { type: "button", class: "quiet", "aria-label": `Copy ${id}`, onclick: () => this.copy(message) }, "Copy"),
      ),
      pairs.length || message.eventTime ? h("dl", { class: "pairs" }, pairs.map(([name, text]) => h("div", {}, h("dt", {}, name), h("dd", {}, String(text)))), message.eventTime ? h("div", { class: "event-time" }, h("dt", {}, "event time"), h("dd", {}, when(message.eventTime))) : null) : null,
      problem ? h("p", { class: "problem" }, problem) : null,
      h("pre", { tabindex: "0" }, told.text),
    );
  }

  async copy(message) {
    try {
      await copy(jsonLine(recordOf(this.place, message)));
      note("Copied, as a line of JSON");
    } catch (error) {
      note(`Not copied: ${error.message}`, "problem");
    }
  }

  download() {
    const shown = plural(this.shown.length, "message");
    const ranges = [
      ["shown", `The ${shown} shown`],
      ["on", this.isFiltered ? "Those that fit, from the first one shown on" : "From the first one shown on"],
    ];
    let told = "";
    return ask({
      title: "Download messages",
      text: "In the order shown. Bytes that are no text are in base64.",
      fields: [
        { name: "format", label: "As", options: Object.entries(FORMATS).map(([name, { title }]) => [name, title]) },
        { name: "range", label: "Messages", options: ranges },
        { name: "most", label: "At most", type: "number", min: 1, max: MOST_DOWNLOADED, step: 1, value: "1000", when: (values) => values.range === "on" },
      ],
      verb: "Download",
      run: async (values) => {
        const format = FORMATS[values.format];
        const messages = values.range === "shown" ? this.shown : await this.range(Math.min(MOST_DOWNLOADED, Number(values.most)));
        if (!messages.length) throw new Error("There is no message to download");
        const name = [this.place.topic, this.place.subscription].filter(Boolean).join("-").replaceAll(/[^\w.-]+/g, "_");
        save(`${name}.${values.format}`, format.text(messages.map((message) => recordOf(this.place, message))), format.type);
        told = `Downloaded ${plural(messages.length, "message")}`;
      },
      done: () => told,
    });
  }

  /** Messages from the first one of the page on. */
  async range(most) {
    const { signal } = this.aborting;
    const state = this.pages.at(-1) ?? Walk.from(this.sources, this.isNewest);
    const messages = [];
    await this.collect(new Walk(this.sources, this.isNewest, state.map((at) => ({ ...at }))), DOWNLOAD, most, signal, (message) => messages.push(message));
    return messages;
  }

  close() {
    clearTimeout(this.typing);
    this.aborting.abort();
  }
}
