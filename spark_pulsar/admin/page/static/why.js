// Why a topic or one of its subscriptions receives nothing, in sentences with the command that mends it: what
// `spark-pulsar why` prints.

import { whyCommand } from "./commands.js";
import { problemText } from "./dialogs.js";
import { h, plural, setText } from "./dom.js";
import { fullName } from "./names.js";
import { get } from "./rest.js";

const KINDS = { cause: ["cause", "warn"], note: ["note", ""], ok: ["all is well", "good"] };

const COMMAND = /^(.*?)(spark-pulsar .*)$/;

/** What to do: its command, if it has one, in type that says that it can be copied. */
function advice(text) {
  const [, words, command] = COMMAND.exec(text) || [null, text, ""];
  return h("p", { class: "advice" }, words, command ? h("code", {}, command) : null);
}

function finding(row) {
  const [text, kind] = KINDS[row.state];
  return h(
    "li",
    { "data-cause": row.cause },
    h("p", {}, h("span", { class: `badge ${kind}` }, text), " ", row.sentence),
    row.advice ? advice(row.advice) : null,
  );
}

/**
 * A card with the findings about a subscription, or about a topic with all its subscriptions; asks when it is first shown,
 * and again by its button.
 */
export class Why {
  constructor(place) {
    this.url = `/page/why?${new URLSearchParams({
      topic: fullName(place),
      subscription: place.subscription ?? "",
      zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    })}`;
    this.list = h("ul", { class: "findings" });
    this.state = h("p", { class: "state", role: "status" });
    this.button = h("button", { type: "button", onclick: () => this.request() }, "Check again");
    this.element = h(
      "section",
      { class: "card facts-card why" },
      h("div", { class: "why-head" }, h("h2", {}, "Diagnosis"), this.button),
      this.state,
      this.list,
      h("p", { class: "hint" }, "The same by a command:"),
      h("code", { class: "command whole" }, whyCommand(place)),
    );
    this.closing = new AbortController();
    this.request();
  }

  async request() {
    if (this.button.disabled) return;
    this.button.disabled = true;
    setText(this.state, "Compares the statistics of two seconds …");
    try {
      const rows = await get(this.url, this.closing.signal);
      const causes = rows.filter((row) => row.state === "cause").length;
      setText(this.state, causes ? `${plural(causes, "cause")} found` : "No cause found");
      this.list.replaceChildren(...rows.map(finding));
    } catch (error) {
      if (this.closing.signal.aborted) return;
      this.list.replaceChildren();
      setText(this.state, problemText(error));
    } finally {
      this.button.disabled = false;
    }
  }

  close() {
    this.closing.abort();
  }
}
