"""Policies, tenants and permissions that the page changes; the command that it shows does the same."""

import re
import shlex
from collections.abc import Mapping
from typing import Any

from click.testing import CliRunner
from playwright.sync_api import Page, expect
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


def test_a_role_without_rights_changes_nothing(secured: Broker, visit: Open) -> None:
    page = visit(secured, f"#/{NAMESPACE}?permissions")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Token").fill(TOKENS["consumer"])
    dialog.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Grant").click()
    dialog.get_by_label("Role").fill("consumer")
    dialog.get_by_role("button", name="Grant").click()
    expect(dialog.get_by_role("alert")).to_contain_text(re.compile(r"Refused \(40[13]\)"))
