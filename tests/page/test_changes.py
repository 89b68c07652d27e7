"""Policies, tenants and permissions that the page changes; the command that it shows does the same."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from click.testing import CliRunner
from playwright.sync_api import Page, expect
from typer.core import TyperGroup
from typer.main import get_command

from spark_pulsar.cli.main import app
from tests.access.roles import NAMESPACE, TOKENS
from tests.brokers import Broker, topic_path

from .conftest import Open
from .test_page import confirm, place_of


def run(broker: Broker, command: str) -> None:
    """Runs a command of the page against the broker."""
    words = shlex.split(command)
    assert words[:2] == ["spark-pulsar", "admin"]
    done = CliRunner().invoke(get_command(app), ["admin", "--admin-url", broker.admin_url, *words[2:]])
    assert done.exit_code == 0, done.output


def understood(words: Sequence[str]) -> str:
    """Has the command line read a command as it does before it runs it, and returns its name. Raises for an option that
    it does not know or lacks."""
    assert words[0] == "spark-pulsar"
    command, rest, names = get_command(app), list(words[1:]), []
    while True:
        context = command.make_context(None, rest)
        group = context.command
        if not isinstance(group, TyperGroup):
            return " ".join(names).removeprefix("admin ")
        name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
        names.append(name)


def change(page: Page, name: str, values: Mapping[str, str]) -> str:
    """Sets a policy by its dialog and returns the command that this shows."""
    page.get_by_role("button", name=f"Set {name}", exact=True).click()
    dialog = page.get_by_role("dialog")
    for label, value in values.items():
        field = dialog.get_by_label(re.compile(f"^{label}"))
        if field.evaluate("element => element.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)
    command = dialog.locator(".command").inner_text()
    dialog.get_by_role("button", name="Set", exact=True).click()
    expect(dialog).to_have_count(0)
    return command


def set_policies(broker: Broker, path: str) -> dict[str, Any]:
    """The policies of a place that are set there, by member."""
    applied = broker.rest("GET", f"{path}/appliedPolicies")[1]
    return {name: found["value"] for name, found in applied.items() if found["level"] != "broker"}


def test_policies_of_a_namespace_are_set_and_removed(page_broker: Broker, visit: Open) -> None:
    one, other = page_broker.namespace(), page_broker.namespace()
    page = visit(page_broker, f"#/{one}?policies")
    commands = [
        change(page, "retention policies", {"retention size in MB": "10", "retention time in minutes": "90"}),
        change(page, "message TTL in seconds", {"message TTL": "3600"}),
        change(
            page, "backlog quota map", {"policy": "consumer_backlog_eviction", "limit size": "1000", "limit time": "-1"}
        ),
        change(page, "deduplication enabled", {"deduplication": "yes"}),
        change(page, "subscription types enabled", {"subscription": "Exclusive,Shared"}),
        change(page, "schema compatibility strategy", {"schema": "FULL"}),
    ]
    expected = set_policies(page_broker, f"/admin/v2/namespaces/{one}")
    assert expected["retention_policies"] == {"retentionTimeInMinutes": 90, "retentionSizeInMB": 10}
    assert expected["message_ttl_in_seconds"] == 3600
    assert expected["deduplicationEnabled"] is True
    assert len(expected) >= len(commands)
    for command in commands:
        run(page_broker, command.replace(one, other))
    assert set_policies(page_broker, f"/admin/v2/namespaces/{other}") == expected

    page.get_by_role("button", name="Remove message TTL in seconds").click()
    command = page.get_by_role("dialog").locator(".command").inner_text()
    confirm(page)
    run(page_broker, command.replace(one, other))
    assert "message_ttl_in_seconds" not in set_policies(page_broker, f"/admin/v2/namespaces/{one}")
    assert "message_ttl_in_seconds" not in set_policies(page_broker, f"/admin/v2/namespaces/{other}")

    page.get_by_role("button", name="Set compaction threshold").click()
    page.get_by_role("dialog").get_by_label(re.compile("^compaction")).fill("-5")
    page.get_by_role("dialog").get_by_role("button", name="Set", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("412")


def test_policies_of_a_topic_are_set_and_removed(page_broker: Broker, visit: Open) -> None:
    one, other = page_broker.topic("set"), page_broker.topic("set")
    for topic in (one, other):
        page_broker.rest("PUT", topic_path(topic))
    page = visit(page_broker, place_of(one, tab="policies"))
    for command in (
        change(page, "message TTL in seconds", {"message TTL": "60"}),
        change(page, "max consumers per topic", {"max consumers": "7"}),
        change(page, "publish rate", {"publish throttling rate in msg": "100"}),
    ):
        run(page_broker, command.replace(one, other))
    expected = set_policies(page_broker, topic_path(one))
    assert expected["message_ttl_in_seconds"] == 60
    assert expected["publish_rate"]["publishThrottlingRateInMsg"] == 100
    assert set_policies(page_broker, topic_path(other)) == expected
    page.get_by_role("button", name="Remove max consumers per topic").click()
    confirm(page)
    assert "max_consumers_per_topic" not in set_policies(page_broker, topic_path(one))


def test_tenants_namespaces_and_permissions_are_changed(page_broker: Broker, visit: Open) -> None:
    page = visit(page_broker)
    expect(page.get_by_role("heading", level=1)).to_have_text("standalone")
    page.get_by_role("button", name="Create tenant").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("page-acme")
    dialog.get_by_label("Roles").fill("ada, bob")
    dialog.get_by_label("Clusters").fill("standalone")
    expect(dialog.locator(".command")).to_have_text(
        "spark-pulsar admin tenants create page-acme --admin-roles ada,bob --allowed-clusters standalone"
    )
    confirm(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("page-acme")
    tenant = "/admin/v2/tenants/page-acme"
    assert page_broker.rest("GET", tenant)[1]["adminRoles"] == ["ada", "bob"]
    page.get_by_role("button", name="Change", exact=True).click()
    expect(dialog.get_by_label("Roles")).to_have_value("ada,bob")
    dialog.get_by_label("Roles").fill("ada")
    confirm(page)
    assert page_broker.rest("GET", tenant)[1]["adminRoles"] == ["ada"]

    page.get_by_role("button", name="Create namespace").click()
    dialog.get_by_label("Name").fill("shop")
    confirm(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("page-acme/shop")
    page.get_by_role("tab", name="Permissions").click()
    page.get_by_role("button", name="Grant").click()
    dialog.get_by_label("Role").fill("reader")
    dialog.get_by_label("Actions").fill("consume")
    command = dialog.locator(".command").inner_text()
    confirm(page)
    permissions = "/admin/v2/namespaces/page-acme/shop/permissions"
    assert page_broker.rest("GET", permissions)[1] == {"reader": ["consume"]}
    run(page_broker, command.replace("reader", "writer"))
    page.get_by_role("button", name="Revoke reader").click()
    confirm(page)
    assert page_broker.rest("GET", permissions)[1] == {"writer": ["consume"]}

    page.get_by_role("button", name="Delete", exact=True).click()
    confirm(page, "page-acme/shop")
    expect(page.get_by_role("heading", level=1)).to_have_text("page-acme")
    page.get_by_role("button", name="Delete", exact=True).click()
    confirm(page, "page-acme")
    assert page_broker.rest("GET", tenant)[0] == 404


def commands_of(page: Page, broker: Broker, place: str) -> dict[str, str]:
    """The command that the dialog of each action of a place shows, as the command line understands it."""
    page.goto(f"{broker.admin_url}/{place}")
    actions = page.get_by_role("group", name="Actions").get_by_role("button")
    expect(actions.first).to_be_visible()
    found = {}
    for text in actions.all_inner_texts():
        page.get_by_role("group", name="Actions").get_by_role("button", name=text, exact=True).click()
        dialog = page.get_by_role("dialog")
        for label in ("Name", "Value"):
            if (field := dialog.get_by_label(label, exact=True)).count():
                field.fill("made")
        found[text] = understood(shlex.split(dialog.locator(".command").inner_text()))
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
    return found


@pytest.mark.long
def test_every_action_shows_a_command(page_broker: Broker, visit: Open) -> None:
    one, parts = page_broker.topic("act"), page_broker.topic("act", partitions=2)
    for topic in (one, parts):
        page_broker.rest("PUT", topic_path(topic))
        assert page_broker.rest("PUT", f"{topic_path(topic)}/subscription/sub")[0] == 204
    page = visit(page_broker)
    assert commands_of(page, page_broker, "#/") == {"Create tenant": "tenants create"}
    tenant = {"Create namespace": "namespaces create", "Change": "tenants update", "Delete": "tenants delete"}
    assert commands_of(page, page_broker, "#/public") == tenant
    assert commands_of(page, page_broker, "#/public/default") == {
        "Create topic": "topics create",
        "Unload": "namespaces unload",
        "Clear all backlogs": "namespaces clear-backlog",
        "Delete": "namespaces delete",
    }
    common = {
        "Produce": "produce",
        "Unload": "topics unload",
        "Compact": "topics compact",
        "Expire messages": "topics expire-messages-all-subscriptions",
    }
    assert commands_of(page, page_broker, place_of(one)) == common | {
        "Terminate": "topics terminate",
        "Delete": "topics delete",
    }
    assert commands_of(page, page_broker, place_of(parts)) == common | {
        "Terminate": "topics partitioned-terminate",
        "Delete": "topics delete-partitioned-topic",
    }
    moves = {
        "Clear backlog": "topics clear-backlog",
        "Reset cursor": "topics reset-cursor",
        "Expire messages": "topics expire-messages",
        "Delete": "topics unsubscribe",
    }
    assert commands_of(page, page_broker, place_of(one, "sub")) == {"Skip": "topics skip"} | moves
    assert commands_of(page, page_broker, place_of(parts, "sub")) == moves


def act(page: Page, action: str, fields: Mapping[str, str], name: str = "") -> str:
    """Confirms the dialog of an action with values, and returns the command that it showed."""
    page.get_by_role("group", name="Actions").get_by_role("button", name=action, exact=True).click()
    dialog = page.get_by_role("dialog")
    for label, value in fields.items():
        field = dialog.get_by_label(label, exact=True)
        if field.evaluate("element => element.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)
    command = dialog.locator(".command").inner_text()
    confirm(page, name)
    return command


def test_the_command_of_an_action_does_the_same(page_broker: Broker, visit: Open) -> None:
    one, other = page_broker.topic("same"), page_broker.topic("same")
    for topic in (one, other):
        for sub in ("sub", "gone"):
            assert page_broker.rest("PUT", f"{topic_path(topic)}/subscription/{sub}")[0] == 204
        producer = page_broker.client().create_producer(topic, batching_enabled=False)
        for index in range(10):
            producer.send(b"%d" % index)
        producer.close()

    def backlogs(topic: str) -> dict[str, int]:
        subscriptions = page_broker.stats(topic)["subscriptions"]
        return {name: found["msgBacklog"] for name, found in subscriptions.items()}

    def ledger(topic: str) -> str:
        return str(page_broker.rest("GET", f"{topic_path(topic)}/lastMessageId")[1]["ledgerId"])

    def both(action: str, fields: Mapping[str, str], expected: Mapping[str, int], name: str = "") -> None:
        command = act(page, action, fields, name)
        run(page_broker, command.replace(one, other).replace(f"{ledger(one)}:", f"{ledger(other)}:"))
        assert (backlogs(one), backlogs(other)) == (expected, expected), command

    page = visit(page_broker, place_of(one, "sub"))
    both("Skip", {"Entries to skip": "4"}, {"sub": 6, "gone": 10})
    both("Clear backlog", {}, {"sub": 0, "gone": 10}, "sub")
    both("Reset cursor", {}, {"sub": 10, "gone": 10})
    at = {"To": "id", "Message id (ledger:entry)": f"{ledger(one)}:7:-1:-1"}
    both("Reset cursor", at, {"sub": 3, "gone": 10})
    both(
        "Reset cursor",
        {"To": "time", "Published at or after (your local time)": "2026-01-31T12:00:00"},
        {"sub": 10, "gone": 10},
    )
    page.goto(f"{page_broker.admin_url}/{place_of(one, 'gone')}")
    both("Delete", {}, {"sub": 10}, "gone")
    page.goto(f"{page_broker.admin_url}/{place_of(one)}")
    both("Unload", {}, {"sub": 10})
    both("Compact", {}, {"sub": 10})
    both("Terminate", {}, {"sub": 10}, one.rpartition("/")[2])
    for topic in (one, other):
        assert page_broker.rest("GET", f"{topic_path(topic)}/compaction")[1]["status"] != "NOT_RUN"
        assert page_broker.rest("GET", f"{topic_path(topic)}/internalStats")[1]["state"] == "Terminated"
    command = act(page, "Delete", {}, one.rpartition("/")[2])
    run(page_broker, command.replace(one, other))
    for topic in (one, other):
        assert page_broker.rest("GET", f"{topic_path(topic)}/stats")[0] == 404


@pytest.mark.long
def test_every_policy_shows_a_command(page_broker: Broker, visit: Open) -> None:
    topic = page_broker.topic("policy-commands")
    assert page_broker.rest("PUT", topic_path(topic))[0] == 204
    for place, fewest in (("#/public/default?policies", 20), (place_of(topic, tab="policies"), 20)):
        page = visit(page_broker, place)
        buttons = page.get_by_role("button", name=re.compile("^Set "))
        expect(buttons.nth(fewest - 1)).to_be_visible()
        for command in page.evaluate(COMMANDS):
            words = shlex.split(command)
            understood(words)


COMMANDS = """() => [...document.querySelectorAll("button[aria-label^='Set ']")].map((button) => {
  button.click();
  const dialog = document.querySelector("dialog[open]");
  for (const input of dialog.querySelectorAll("input:required")) {
    if (input.value === "") input.value = input.type === "number" ? "1" : "x";
    input.dispatchEvent(new Event("input"));
  }
  const command = dialog.querySelector(".command").textContent;
  dialog.close();
  return command;
})"""
"""The commands of all policies of a view; what they need is filled in."""


def test_a_role_without_rights_changes_nothing(secured: Broker, visit: Open) -> None:
    page = visit(secured, f"#/{NAMESPACE}?permissions")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Token").fill(TOKENS["consumer"])
    dialog.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Grant").click()
    dialog.get_by_label("Role").fill("consumer")
    dialog.get_by_role("button", name="Grant").click()
    expect(dialog.get_by_role("alert")).to_contain_text(re.compile(r"Refused \(40[13]\)"))
