// Dialogs: questions before an action, signing in, going to a place, keys. And short notes of what was done.

import { h, newId, setText } from "./dom.js";

const NOTE_MS = 6000;

export function note(text, kind = "done") {
  const element = h("div", { class: `toast ${kind}` }, text);
  document.getElementById("toasts").append(element);
  setTimeout(() => element.remove(), NOTE_MS);
}

/** What a refusal says, with the status that it came with. */
export function problemText(error) {
  if (error.status === undefined) return `${error.name}: ${error.message}`;
  if (error.status === 0) return error.message;
  return error.isRefusal ? `Refused (${error.status}): ${error.message}` : `${error.message} (${error.status})`;
}

/**
 * Shows a dialog until it is closed; `build` returns its elements and gets two functions: one closes it with a value, the
 * other says what it resolves to if its user closes it.
 */
export function showDialog(title, build, { isWide = false } = {}) {
  const id = newId("dialog");
  const before = document.activeElement;
  const dialog = h("dialog", { "aria-labelledby": id, class: isWide ? "wide" : "" });
  return new Promise((resolve) => {
    let result;
    const close = (value) => {
      result = value;
      dialog.close();
    };
    const settle = (value) => {
      result = value;
    };
    dialog.append(h("h2", { id }, title), ...build(close, settle));
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (before && before.isConnected) before.focus();
      resolve(result);
    });
    document.body.append(dialog);
    dialog.showModal();
    dialog.querySelector("[autofocus]")?.focus();
  });
}

function field(each, values, changed) {
  const id = newId("field");
  const attributes = { id, name: each.name, autocomplete: "off", spellcheck: "false", required: each.isRequired };
  let input;
  if (each.lines) {
    input = h("textarea", { ...attributes, rows: each.lines, value: each.value ?? "", placeholder: each.placeholder });
  } else if (each.options) {
    input = h("select", attributes, each.options.map(([value, text]) => h("option", { value }, text)));
    input.value = each.value ?? each.options[0][0];
  } else {
    input = h("input", { ...attributes, type: each.type || "text", value: each.value ?? "", min: each.min, max: each.max, step: each.step, placeholder: each.placeholder });
  }
  input.addEventListener("input", () => {
    values[each.name] = input.value;
    changed();
  });
  values[each.name] = input.value;
  const element = h("div", { class: "field" }, h("label", { for: id }, each.label), input, each.hint ? h("p", { class: "hint" }, each.hint) : null);
  return { element, show: () => (element.hidden = each.when ? !each.when(values) : false), input };
}

/**
 * Asks before an action, and does it. `typed` is a name that the user must type; `fields` are its options; `run(values)`
 * does it, and its error is shown in the dialog; `command(values)` is the command that does the same. Resolves to true
 * when it was done.
 */
export function ask({ title, text, fields = [], typed, verb, isDangerous = false, run, done, command }) {
  return showDialog(title, (close, settle) => {
    const values = {};
    const problem = h("p", { class: "problem", role: "alert", hidden: true });
    const button = h("button", { type: "submit", class: isDangerous ? "danger" : "primary" }, verb);
    const made = [];
    const explanation = h("p", { class: "explanation" });
    const same = command ? h("code", { class: "command whole" }) : null;
    const changed = () => {
      if (same) setText(same, command(values));
      for (const each of made) each.show();
      setText(explanation, typeof text === "function" ? text(values) : text);
      button.disabled = typed !== undefined && values.typed !== typed;
    };
    for (const each of fields) made.push(field(each, values, changed));
    const typing = typed === undefined ? null : field({ name: "typed", label: `Type ${typed} to confirm`, isRequired: true }, values, changed);
    if (typing) made.push(typing);
    const first = made[0]?.input;
    if (first) first.setAttribute("autofocus", "");
    const submit = async (event) => {
      event.preventDefault();
      if (button.disabled) return;
      button.disabled = true;
      problem.hidden = true;
      const running = act();
      settle(running); // who closes the dialog meanwhile has not stopped it
      if (await running) close(true);
      else settle(false);
    };
    const act = async () => {
      try {
        await run(values);
      } catch (error) {
        if (!problem.isConnected) note(`${title}: ${problemText(error)}`, "problem");
        problem.hidden = false;
        setText(problem, problemText(error));
        button.disabled = false;
        return false;
      }
      note(typeof done === "function" ? done(values) : done);
      return true;
    };
    const cancel = h("button", { type: "button", onclick: () => close(false), autofocus: first ? undefined : true }, "Cancel");
    const form = h("form", { onsubmit: submit }, explanation, made.map((each) => each.element), same ? h("p", { class: "hint" }, "The same by a command:") : null, same, problem, h("div", { class: "buttons" }, cancel, button));
    changed();
    return [form];
  });
}

/** Asks for credentials; resolves to the header, or undefined. */
export function askCredentials(schemes, headers, reason) {
  return showDialog("Sign in", (close) => {
    const values = {};
    const isBasic = (each) => each.scheme === "Basic";
    const offered = schemes.length ? schemes : ["Bearer", "Basic"];
    const kinds = offered.map((scheme) => [scheme, scheme === "Basic" ? "User and password" : "Token"]);
    let made = [];
    const changed = () => made.forEach((each) => each.show());
    made = [
      field({ name: "scheme", label: "With", options: kinds }, values, changed),
      field({ name: "token", label: "Token", type: "password", when: (each) => !isBasic(each), hint: "A token (JWT), as of “spark-pulsar tokens create” or of your identity provider." }, values, changed),
      field({ name: "user", label: "User", when: isBasic }, values, changed),
      field({ name: "password", label: "Password", type: "password", when: isBasic }, values, changed),
    ];
    changed();
    const submit = (event) => {
      event.preventDefault();
      close(isBasic(values) ? headers.basic(values.user, values.password) : headers.token(values.token));
    };
    made[isBasic(values) ? 2 : 1].input.setAttribute("autofocus", "");
    const cancel = h("button", { type: "button", onclick: () => close(undefined) }, "Cancel");
    const buttons = h("div", { class: "buttons" }, cancel, h("button", { type: "submit", class: "primary" }, "Sign in"));
    const why = reason ? h("p", { class: "problem", role: "alert" }, `The broker says: ${reason}`) : null;
    const kept = h("p", { class: "hint" }, "Kept for this tab alone, and sent to this broker alone.");
    return [h("form", { onsubmit: submit }, why, made.map((each) => each.element), kept, buttons)].filter(Boolean);
  });
}

export function askPlace(known) {
  return showDialog("Go to", (close) => {
    const id = newId("places");
    const list = h("datalist", { id }, known.slice(0, 2000).map((name) => h("option", { value: name })));
    const input = h("input", { type: "text", list: id, autofocus: true, autocomplete: "off", spellcheck: "false", "aria-label": "Name of a tenant, namespace or topic" });
    const submit = (event) => {
      event.preventDefault();
      close(input.value);
    };
    const hint = h("p", { class: "hint" }, "A tenant, tenant/namespace, tenant/namespace/topic, or a full name, persistent://…");
    const cancel = h("button", { type: "button", onclick: () => close(undefined) }, "Cancel");
    return [h("form", { onsubmit: submit }, input, list, hint, h("div", { class: "buttons" }, cancel, h("button", { type: "submit", class: "primary" }, "Go")))];
  });
}

const KEYS = [
  ["/", "Filter the table"],
  ["↑ ↓", "From row to row; Home, End, Page Up, Page Down too"],
  ["Enter", "Open the row"],
  ["Esc", "Close a dialog, empty the filter, or go up one level"],
  ["← →", "Read a plot's values, when it has the focus"],
  ["g", "Go to a name"],
  ["c", "Connect: addresses and first programs"],
  ["j", "The view as JSON by URL"],
  ["1 … 9", "Tabs of a topic or namespace"],
  ["n b", "The next messages, and back"],
  ["t", "Light, dark, or as the system has it"],
  ["p", "Pause, and go on"],
  ["?", "These keys"],
];

export const showKeys = () =>
  showDialog("Keys", (close) => [
    h("dl", { class: "keys" }, KEYS.flatMap(([key, text]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)])),
    h("div", { class: "buttons" }, h("button", { type: "button", class: "primary", autofocus: true, onclick: () => close() }, "Close")),
  ]);
