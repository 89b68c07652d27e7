// Permissions of roles with a namespace or topic.

import { grant, revoke } from "./changing.js";
import { h, setText } from "./dom.js";
import { topicPath } from "./names.js";
import { problemPanel } from "./pieces.js";
import { get, path } from "./rest.js";

export class Permissions {
  /** `changed()` is called when a permission was changed. */
  constructor(place, changed) {
    this.place = place;
    this.changed = changed;
    this.problem = problemPanel();
    this.tally = h("span", { class: "tally", role: "status" });
    this.body = h("tbody", {});
    this.nothing = h("p", { class: "nothing", hidden: true }, "No role has a permission of its own here: super users and the tenant's administrators alone may use it, where authorization is on.");
    const titles = ["Role", "Actions", ""].map((title) => h("th", { scope: "col" }, title));
    this.element = h(
      "section",
      { class: "card table-card", "aria-label": "Permissions" },
      h("header", { class: "table-head" }, h("h2", {}, "Permissions"), this.tally, h("div", { class: "message-tools" }, h("button", { type: "button", onclick: () => this.run(grant(place)) }, "Grant …"))),
      this.problem.element,
      h("div", { class: "scroller wide-cells" }, h("table", {}, h("caption", { class: "hidden" }, "Permissions"), h("thead", {}, h("tr", {}, titles)), this.body)),
      this.nothing,
    );
  }

  async run(asked) {
    if (await asked) this.changed();
  }

  async refresh(signal) {
    const { place } = this;
    try {
      const roles = await get(place.topic === undefined ? path("namespaces", place.tenant, place.namespace, "permissions") : topicPath(place, "permissions"), signal);
      const text = JSON.stringify(roles);
      if (text !== this.text) {
        this.text = text;
        this.draw(Object.entries(roles));
      }
      this.problem.show(null);
    } catch (error) {
      if (signal.aborted || error.isStranger || error.status === 0) throw error;
      this.problem.show(error, "permissions");
    }
  }

  draw(roles) {
    setText(this.tally, String(roles.length));
    this.nothing.hidden = roles.length > 0;
    this.body.replaceChildren(
      ...roles.map(([role, actions]) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, role),
          h("td", {}, actions.join(", ")),
          h("td", {}, h("div", { class: "actions" }, h("button", { type: "button", "aria-label": `Change ${role}`, onclick: () => this.run(grant(this.place, role, actions)) }, "Change"), h("button", { type: "button", class: "danger-quiet", "aria-label": `Revoke ${role}`, onclick: () => this.run(revoke(this.place, role)) }, "Revoke"))),
        ),
      ),
    );
  }
}
