// What a view shows, as JSON by URL: the calls of the admin API that it has made.

import { shellWord } from "./commands.js";
import { note, showDialog } from "./dialogs.js";
import { h } from "./dom.js";
import { copy } from "./records.js";
import { isServedByPage, isSignedIn, requested } from "./rest.js";

function row(url, admin) {
  const header = isSignedIn() ? ' -H "Authorization: $AUTHORIZATION"' : "";
  const command = async () => {
    try {
      await copy(`curl${header} ${shellWord(admin + url)}`);
      note("Copied: command");
    } catch (error) {
      note(`Not copied: ${error.message}`, "problem");
    }
  };
  const link = h("a", { href: url, target: "_blank", rel: "noopener" }, url);
  return h("li", { class: "address" }, link, isServedByPage ? null : h("button", { type: "button", class: "quiet", onclick: command }, "Copy curl"));
}

/** Shows the addresses whose JSON the view is made of. */
export const showJson = (title) =>
  showDialog(
    `${title} as JSON`,
    (close) => [
      h("ul", { class: "json-calls" }, requested().map((url) => row(url, location.origin))),
      isSignedIn() ? h("p", { class: "hint" }, "A link sends no token: use the command, with AUTHORIZATION set to “Bearer TOKEN”.") : null,
      h("div", { class: "buttons" }, h("button", { type: "button", class: "primary", autofocus: true, onclick: () => close() }, "Close")),
    ],
    { isWide: true },
  );
