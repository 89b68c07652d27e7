"""Connecting from the page: addresses and programs that run, a message that is produced, a topic that is created."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from tests.access.roles import NAMESPACE, TOKENS, TOPIC
from tests.brokers import Broker, topic_path
from tests.conftest import started

from .conftest import Open
from .test_page import place_of


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker without a topic."""
    with started("ours", tmp_path_factory.mktemp("page-empty")) as broker:
        yield broker


@pytest.mark.long
def test_an_empty_broker_begins_with_programs_that_run(empty: Broker, visit: Open) -> None:
    page = visit(empty)
    box = page.get_by_label("Connect", exact=True)
    expect(box).to_contain_text(empty.service_url)
    expect(box).to_contain_text(empty.admin_url)
    python = box.locator("pre").inner_text()
    done = subprocess.run([sys.executable, "-c", python], capture_output=True, text=True, timeout=90, check=False)
    assert "b'hello'" in done.stdout, done.stderr
    box.get_by_label("Program", exact=True).select_option("Command line")
    commands = box.locator("pre").inner_text()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-ec", commands],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"PATH": path},
    )
    assert ran.returncode == 0, ran.stderr
    assert "world" in ran.stdout
    for language, part in (("Spark", 'format("pulsar")'), ("Java", "PulsarClient.builder()")):
        box.get_by_label("Program", exact=True).select_option(language)
        expect(box.locator("pre")).to_contain_text(part)
        expect(box.locator("pre")).to_contain_text(empty.service_url)
    page.reload()
    expect(page.get_by_role("link", name="public/default/my-topic")).to_be_visible()
    expect(page.get_by_label("Connect", exact=True)).to_be_hidden()


def test_a_topic_is_created_and_a_message_produced(page_broker: Broker, visit: Open) -> None:
    namespace = page_broker.namespace()
    settings = {"permissions": ["clipboard-read", "clipboard-write"], "timezone_id": "America/New_York"}
    page = visit(page_broker, f"#/{namespace}", **settings)
    held: list[Route] = []
    page.route("**/admin/v2/persistent/**/closed", lambda route: held.append(route))
    page.get_by_role("button", name="Create topic").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("closed")
    with page.expect_request("**/closed"):
        dialog.get_by_role("button", name="Create").click()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    held[0].continue_()
    expect(page.get_by_role("heading", level=1)).to_have_text("closed")  # it was made: the page goes there
    page.unroute("**/admin/v2/persistent/**/closed")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Create topic").click()
    dialog.get_by_label("Name").fill("parts")
    dialog.get_by_label("Partitions").fill("2")
    expect(dialog.locator(".command")).to_have_text(
        f"spark-pulsar admin topics create-partitioned-topic persistent://{namespace}/parts --partitions 2"
    )
    dialog.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("parts")
    expect(page.locator(".badges")).to_contain_text("2 partitions")

    page.get_by_role("button", name="Produce", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Value", exact=True).fill('{"pre": "größe"}')
    dialog.get_by_label("Key").fill("kütchen")
    dialog.get_by_label("Properties").fill("no property")
    dialog.get_by_role("button", name="Produce", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("want name=value")
    dialog.get_by_label("Properties").fill("source=page\nn=a=b")
    expect(dialog.locator(".command")).to_contain_text("-k 'kütchen' -p source=page -p n=a=b")
    dialog.get_by_label("Event time").fill("2026-01-31")
    expect(dialog.locator(".command")).to_contain_text('"event_time_ms":1769835600000')  # its first moment here
    dialog.get_by_label("Event time").fill("2026-01-31 12:00")
    command = dialog.locator(".command").inner_text()
    dialog.get_by_role("button", name="Produce", exact=True).click()
    expect(page.get_by_text("Produced a message to parts")).to_be_visible()
    page.get_by_role("tab", name="Messages").click()
    message = page.locator("li.message")
    expect(message.locator("pre")).to_have_text('{ "pre": "größe" }')
    expect(message.locator(".message-key b")).to_have_text("kütchen")
    expect(message.locator(".pairs")).to_contain_text("2026-01-31 12:00:00")
    expect(message.locator(".pairs")).to_contain_text("na=b")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PULSAR_SERVICE_URL": page_broker.service_url}
    subprocess.run(["sh", "-ec", command], timeout=90, check=True, env=environment)
    page.get_by_role("button", name="Reload").click()
    expect(message).to_have_count(2)
    expect(message.locator("pre")).to_have_text(['{ "pre": "größe" }'] * 2)
    expect(message.first.locator(".pairs")).to_contain_text("2026-01-31 12:00:00")
    page.get_by_role("button", name="Produce", exact=True).click()
    dialog.get_by_label("Value", exact=True).fill("long " * 50_000)
    dialog.get_by_role("button", name="Produce", exact=True).click()
    expect(dialog).to_have_count(0)
    page.get_by_role("button", name="Reload").click()
    expect(message).to_have_count(3)
    page.keyboard.press("c")
    box = page.get_by_role("dialog", name="Connect")
    expect(box.locator("pre")).to_contain_text(f'"persistent://{namespace}/parts"')
    box.get_by_role("button", name="Copy Service URL").click()
    assert page.evaluate("navigator.clipboard.readText()") == page_broker.service_url


def test_a_role_produces_where_it_may(secured: Broker, visit: Open) -> None:
    page = visit(secured, place_of(f"persistent://{NAMESPACE}/{TOPIC}"))
    dialog = page.get_by_role("dialog", name="Sign in")
    dialog.get_by_label("Token").fill(TOKENS["consumer"])
    dialog.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Produce", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Produce", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text(re.compile("Refused|permi|authoriz"))
    page.keyboard.press("Escape")
    page.get_by_role("button", name=re.compile("Sign out")).click()
    dialog = page.get_by_role("dialog", name="Sign in")
    dialog.get_by_label("Token").fill(TOKENS["admin"])
    dialog.get_by_role("button", name="Sign in").click()
    before = secured.rest("GET", f"{topic_path(f'persistent://{NAMESPACE}/{TOPIC}')}/stats")[0]
    assert before == 401
    page.get_by_role("button", name="Produce", exact=True).click()
    page.get_by_role("dialog").get_by_label("Value", exact=True).fill("from the page")
    page.get_by_role("dialog").get_by_role("button", name="Produce", exact=True).click()
    expect(page.get_by_text("Produced a message")).to_be_visible()


def test_each_view_is_json_by_url(page_broker: Broker, visit: Open) -> None:
    topic = page_broker.topic("json")
    assert page_broker.rest("PUT", topic_path(topic))[0] == 204
    for place, part in (
        (place_of(topic), f"{topic_path(topic)}/"),
        ("#/public/default", "/public/default"),
        ("#/", "/clusters"),
    ):
        page = visit(page_broker, place)
        expect(page.locator("#pulse")).to_have_text("live")
        page.keyboard.press("j")
        links = page.get_by_role("dialog").get_by_role("link").all()
        urls = [link.get_attribute("href") or "" for link in links]
        assert any(part in url for url in urls), urls
        assert all(page.request.get(page_broker.admin_url + url).ok for url in urls)
        page.keyboard.press("Escape")
