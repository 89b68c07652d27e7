"""What the page says of a broker that is gone, of its topics and places, wide and narrow."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.access.roles import TOKENS
from tests.brokers import Broker, topic_path
from tests.conftest import started

from .conftest import Open
from .test_page import PRESENT, place_of, tile
from .test_page_server import page_of


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that a test may kill."""
    with started("ours", tmp_path_factory.mktemp("page-mortal")) as broker:
        yield broker
        broker.close_since(0)


def test_health_turns_with_the_broker(mortal: Broker, visit: Open) -> None:
    topic = mortal.topic("quiet")
    assert mortal.rest("PUT", topic_path(topic))[0] == 204
    with page_of(mortal) as (server, key):
        served = visit(server, f"?key={key}")
        expect(served.get_by_text("healthy")).to_be_visible()
        quiet = visit(mortal, place_of(topic, tab="messages"))
        expect(quiet.locator("#pulse")).to_have_text("live")
        page = visit(mortal)
        expect(page.get_by_text("healthy")).to_be_visible()
        page.route("**/broker-stats/topics", lambda route: route.fulfill(status=500, json={"reason": "it went wrong"}))
        page.evaluate(PRESENT)
        expect(page.locator(".toast")).to_have_text("it went wrong (500)")
        page.unroute("**/broker-stats/topics")
        mortal.kill()
        for each in (served, quiet):
            each.evaluate(PRESENT)
            expect(each.locator("#pulse")).to_have_text("no answer")
        expect(served.get_by_text("healthy")).to_have_count(0)
    page.evaluate(PRESENT)
    expect(page.locator("#pulse")).to_have_text("no answer")
    expect(page.locator(".badges .bad")).to_have_text("no answer")
    expect(page.get_by_text("healthy")).to_have_count(0)
    assert page.evaluate("getComputedStyle(document.querySelector('.tiles')).filter") == "grayscale(1)"
    mortal.restart()
    page.evaluate(PRESENT)
    expect(page.get_by_text("healthy")).to_be_visible()
    expect(page.locator("#pulse")).to_have_text("live")


def names_of(page: Page) -> list[str]:
    """Names of the topics in their order."""
    return page.locator("tbody tr:has(a) td:first-child").all_inner_texts()


def test_live_topics_come_first_and_rates_have_bytes(page_broker: Broker, visit: Open) -> None:
    namespace = page_broker.namespace()
    topics = [f"persistent://{namespace}/{name}" for name in ("a-idle", "b-idle", "z-live")]
    for topic in topics:
        assert page_broker.rest("PUT", topic_path(topic))[0] == 204
    producer = page_broker.client().create_producer(topics[-1], batching_enabled=False)
    page = visit(page_broker, f"#/{namespace}")
    expect(page.locator("tbody tr:has(a)")).to_have_count(3)
    for _ in range(30):
        producer.send(b"x" * 1000)
    page.evaluate(PRESENT)
    expect(page.locator("tbody tr:has(a) td:first-child").first).to_have_text("z-live")
    page.get_by_role("button", name="Topic", exact=True).click()
    expect(page).to_have_url(re.compile(r"sort=-Topic"))
    assert names_of(page) == ["a-idle", "b-idle", "z-live"]
    page.reload()
    expect(page.locator("tbody tr:has(a) td:first-child").first).to_have_text("a-idle")
    for tab in ("Policies", "Topics"):
        page.get_by_role("tab", name=tab).click()
    expect(page).to_have_url(re.compile(r"\?topics&sort=-Topic"))
    page.get_by_role("button", name="Topic", exact=True).click()
    expect(page).to_have_url(re.compile(r"\?topics&sort=Topic"))

    page.goto(f"{page_broker.admin_url}/#/")
    for _ in range(30):
        producer.send(b"x" * 1000)
    page.evaluate(PRESENT)
    expect(tile(page, "Messages in")).to_have_text(re.compile(r"[1-9][\d.,K]* /s"))
    expect(page.locator(".tile").first.locator(".more")).to_have_text(re.compile(r"[1-9][\d.]* (B|KiB|MiB)/s"))


def test_a_tree_that_was_broken_off_is_read_again(page_broker: Broker, visit: Open) -> None:
    page = visit(page_broker)
    page.route("**/admin/v2/tenants", lambda route: None)  # no answer
    with page.expect_request("**/admin/v2/tenants"):
        page.reload()
    page.unroute("**/admin/v2/tenants")
    page.evaluate(PRESENT)
    tree = page.get_by_role("navigation", name="Tenants")
    expect(tree.get_by_role("link", name="public")).to_be_visible(timeout=12_000)  # not after 15 s
    page.locator(".skip-link").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    expect(page.get_by_role("heading", level=1)).to_have_text("standalone")


NAMES = ["..", ".", "%2F", "?", "#", "a;b", "..;", "a+b c"]


def test_a_topic_of_any_name_opens(page_broker: Broker, visit: Open) -> None:  # covers T-8
    namespace = page_broker.namespace()
    topics = [f"persistent://{namespace}/{local}" for local in NAMES]
    for topic in topics:
        assert page_broker.rest("PUT", topic_path(topic))[0] == 204
    page = visit(page_broker, f"#/{namespace}")
    for local, topic in zip(NAMES, topics, strict=True):
        page.get_by_role("link", name=local, exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(local)
        expect(tile(page, "Backlog")).to_have_text("0")
        assert page.url.partition("#")[2] == place_of(topic).removeprefix("#")
        page.get_by_role("tab", name="Messages").click()
        expect(page.locator(".messages-card .tally")).to_have_text("none")
        page.get_by_label("Place").get_by_role("link", name=namespace.partition("/")[2], exact=True).click()
    assert sorted(page_broker.rest("GET", f"/admin/v2/namespaces/{namespace}/topics")[1]) == sorted(topics)


def test_a_narrow_screen_begins_with_the_view(page_broker: Broker, visit: Open) -> None:
    page = visit(page_broker, "#/public/default")
    page.set_viewport_size({"width": 400, "height": 800})
    tree = page.get_by_role("navigation", name="Tenants and namespaces")
    expect(page.get_by_role("heading", level=1)).to_be_in_viewport()
    expect(tree).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    topic = page_broker.topic("narrow")
    assert page_broker.rest("PUT", topic_path(topic))[0] == 204
    page.goto(f"{page_broker.admin_url}/{place_of(topic, tab='messages')}")
    expect(page.locator(".messages-card")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.get_by_role("button", name="Places").click()
    tree.get_by_role("link", name="public").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("public")
    expect(tree).to_be_hidden()


def test_a_role_without_rights_is_told_why_the_tree_is_empty(secured: Broker, visit: Open) -> None:
    page = visit(secured)
    dialog = page.get_by_role("dialog", name="Sign in")
    dialog.get_by_label("Token").fill(TOKENS["consumer"])
    dialog.get_by_role("button", name="Sign in").click()
    tree = page.get_by_role("navigation", name="Tenants and namespaces")
    expect(tree).to_contain_text(re.compile("for super users.*LIST_TENANTS"))
    tree.get_by_role("button", name="Go to").click()
    expect(page.get_by_role("dialog", name="Go to")).to_be_visible()
