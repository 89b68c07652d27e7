"""Messages in the page: of batches by fifty, filtered, followed, copied, downloaded; reading changes nothing."""

import csv
import io
import json
import re
import time
from pathlib import Path

import pulsar
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.brokers import Broker, topic_path

from .conftest import Open
from .test_page import PRESENT, place_of

MESSAGES = 10_000
BATCH = 1000
MOST_ELEMENTS = 3000
FETCHED = "performance.getEntriesByType('resource').filter((each) => /.page.[0-9a-f]{16}./.test(each.name))"
"""Requests of the page's files."""


def publish(broker: Broker, topic: str, numbers: range, batch: int = BATCH) -> None:
    """Publishes JSON texts with key, property and event time, so many in a batch, compressed."""
    producer = broker.client().create_producer(
        topic,
        batching_enabled=batch > 1,
        batching_max_messages=max(2, batch),
        batching_max_allowed_size_in_bytes=4 << 20,
        batching_max_publish_delay_ms=60_000,
        compression_type=pulsar.CompressionType.ZLib,
        max_pending_messages=len(numbers) + 1,
    )
    for number in numbers:
        producer.send_async(
            json.dumps({"number": number}).encode(),
            None,
            partition_key=f"key-{number % 97}",
            properties={"n": str(number)},
            event_timestamp=1_700_000_000_000 + number,
        )
        if (number + 1) % batch == 0:
            producer.flush()
    producer.flush()


@pytest.fixture(scope="module")
def batched(page_broker: Broker) -> str:
    """A topic of 10,000 messages in ten batches."""
    topic = page_broker.topic("batched")
    publish(page_broker, topic, range(MESSAGES))
    return topic


def numbers_of(page: Page) -> list[int]:
    """The numbers of the messages that are shown."""
    return [json.loads(text)["number"] for text in page.locator("li.message pre").all_inner_texts()]


def tally(page: Page) -> Locator:
    """What the view says of how many there are."""
    return page.locator(".messages-card .tally")


def test_a_batched_topic_is_paged_by_message_with_the_newest_first(
    page_broker: Broker, visit: Open, batched: str
) -> None:
    page = visit(page_broker, place_of(batched, tab="messages"))
    expect(tally(page)).to_have_text("1–50")
    assert numbers_of(page) == list(range(9999, 9949, -1)), "newest first inside a batch, too"
    expect(page.locator(".message-id").first).to_have_text(re.compile(r"^\d+:9:-1:999$"))
    assert page.evaluate("document.querySelectorAll('*').length") < MOST_ELEMENTS
    for _ in range(20):
        page.get_by_role("button", name="Next 50").click()
    expect(tally(page)).to_have_text("1,001–1,050")
    assert numbers_of(page)[0] == 8999, "from batch to batch"
    assert page.evaluate("document.querySelectorAll('*').length") < MOST_ELEMENTS
    page.get_by_role("button", name="Previous 50").click()
    expect(tally(page)).to_have_text("951–1,000")
    assert numbers_of(page)[-1] == 9000
    page.get_by_label("Order").select_option("oldest first")
    expect(page.locator("li.message pre").first).to_have_text('{ "number": 0 }')
    assert numbers_of(page) == list(range(50))


def test_a_view_of_ten_thousand_messages_opens_in_a_second(page_broker: Broker, visit: Open, batched: str) -> None:
    page = visit(page_broker, "#/public/default")
    expect(page.get_by_role("heading", level=1)).to_have_text("public/default")
    page.goto("about:blank")
    spent = []
    for _ in range(3):
        begin = time.monotonic()
        page.goto(f"{page_broker.admin_url}/{place_of(batched, tab='messages')}")
        page.locator("li.message").nth(49).wait_for()
        spent.append(time.monotonic() - begin)
        sizes = page.evaluate(f"{FETCHED}.map((each) => each.transferSize)")
        page.goto("about:blank")  # else the next one is of the same document
    assert min(spent) < 10, "half a second on a quiet machine"
    assert len(sizes) > 20
    assert not any(sizes), "a browser requests no file of the page a second time"


def test_messages_start_at_an_id_or_a_time(page_broker: Broker, visit: Open, batched: str) -> None:
    ledger = page_broker.rest("GET", f"{topic_path(batched)}/lastMessageId")[1]["ledgerId"]
    page = visit(page_broker, place_of(batched, tab=f"messages&from={ledger}:4"))
    expect(page.locator("li.message")).to_have_count(50)
    assert numbers_of(page)[0] == 4999, "the address says where to start"
    page.get_by_label("Start at").fill("2020-01-31 12:00")
    expect(tally(page)).to_have_text("none")
    page.get_by_label("Order").select_option("oldest first")
    expect(tally(page)).to_have_text("1–50")
    assert numbers_of(page)[0] == 0
    page.get_by_label("Start at").fill("1h")
    expect(page).to_have_url(re.compile("from=1h"))
    page.get_by_label("Start at").fill("yesterday")
    expect(page.get_by_role("alert").filter(has_text="is no start")).to_be_visible()


def test_messages_are_filtered_and_a_search_says_how_far_it_came(
    page_broker: Broker, visit: Open, batched: str
) -> None:
    page = visit(page_broker, place_of(batched, tab="messages&text=12"))
    expect(page.locator(".messages-card")).to_contain_text("50 fit")
    assert all("12" in str(number) for number in numbers_of(page))
    page.get_by_label("Text").fill("no message has this")
    far = page.locator(".messages-card > .hint").last
    expect(far).to_contain_text(re.compile(r"Searched 10,000 messages down to \d+:0:-1:0, published .*: 0 fit"))
    page.get_by_label("Text").fill("")
    page.get_by_label("Property").fill("n=4321")
    expect(page.locator("li.message")).to_have_count(1)
    page.get_by_label("Key").fill("key-53")
    expect(page.locator("li.message")).to_have_count(1)
    assert numbers_of(page) == [4321]
    page.get_by_label("Key").fill("key-54")
    expect(tally(page)).to_contain_text("none")


def test_settings_stay_in_the_address_and_keys_turn_pages(page_broker: Broker, visit: Open, batched: str) -> None:
    page = visit(page_broker, place_of(batched, tab="messages&text=12"))
    expect(page.locator(".messages-card")).to_contain_text("50 fit")
    for tab in ("Schema", "Messages"):
        page.get_by_role("tab", name=tab).click()
    expect(page).to_have_url(re.compile("messages&text=12"))
    expect(page.get_by_label("Text")).to_have_value("12")
    page.evaluate("location.hash = location.hash.replace('text=12', 'text=4321')")
    expect(page.get_by_label("Text")).to_have_value("4321")
    expect(page.locator("li.message")).to_have_count(1)
    page.go_back()
    expect(page.get_by_label("Text")).to_have_value("12")
    expect(page.locator("li.message")).to_have_count(50)
    page.get_by_role("heading", level=1).focus()
    page.keyboard.press("n")
    expect(tally(page)).to_have_text("51–100")
    page.keyboard.press("b")
    expect(tally(page)).to_have_text("1–50")
    page.keyboard.press("/")
    expect(page.get_by_label("Text")).to_be_focused()


def test_a_search_over_entries_that_are_gone_ends(page_broker: Broker, visit: Open) -> None:
    topic = page_broker.topic("holes")
    publish(page_broker, topic, range(1), batch=1)
    page = visit(page_broker, place_of(topic))
    expect(page.get_by_role("tab", name="Messages")).to_be_visible()

    def more(route: Route) -> None:
        stats = route.fetch().json()
        stats["lastConfirmedEntry"] = f"{stats['ledgers'][-1]['ledgerId']}:4999"
        route.fulfill(json=stats)

    page.route("**/internalStats", more)
    page.get_by_role("tab", name="Messages").click()
    expect(page.get_by_role("button", name="Search further")).to_be_visible(timeout=15_000)
    expect(tally(page)).to_have_text("none so far")


def test_a_search_is_bounded_and_goes_on(page_broker: Broker, visit: Open) -> None:
    topic = page_broker.topic("far")
    publish(page_broker, topic, range(12_000))
    page = visit(page_broker, place_of(topic, tab="messages&property=n%3D7"))
    further = page.get_by_role("button", name="Search further")
    expect(further).to_be_visible()
    expect(page.locator(".messages-card > .hint").last).to_contain_text(re.compile(r"Searched [\d,]+ messages down to"))
    while further.is_visible():
        further.click()
        expect(tally(page)).not_to_have_text("reading …")
    expect(page.locator(".messages-card > .hint").last).to_contain_text("Searched 12,000 messages")
    assert numbers_of(page) == [7]


def test_new_messages_are_followed(page_broker: Broker, visit: Open) -> None:
    topic = page_broker.topic("followed")
    publish(page_broker, topic, range(60), batch=10)
    page = visit(page_broker, place_of(topic, tab="messages"))
    expect(tally(page)).to_have_text("1–50")
    page.get_by_label("Follow").check()
    expect(tally(page)).to_have_text("1–50")
    publish(page_broker, topic, range(60, 63), batch=3)
    page.evaluate(PRESENT)
    expect(page.locator("li.message pre").first).to_have_text('{ "number": 62 }')
    assert numbers_of(page) == list(range(62, 12, -1)), "as many as before"
    page.locator("li.message").nth(30).scroll_into_view_if_needed()
    publish(page_broker, topic, range(63, 64), batch=1)
    page.evaluate(PRESENT)
    expect(tally(page)).to_contain_text("paused")
    assert numbers_of(page)[0] == 62
    page.evaluate("scrollTo(0, 0)")
    page.evaluate(PRESENT)
    expect(page.locator("li.message pre").first).to_have_text('{ "number": 63 }')


def test_partitions_are_merged_by_time(page_broker: Broker, visit: Open) -> None:
    topic = page_broker.topic("merged", partitions=3)
    for number in range(9):
        publish(page_broker, f"{topic}-partition-{number % 3}", range(number, number + 1), batch=1)
    page = visit(page_broker, place_of(topic, tab="messages"))
    expect(tally(page)).to_have_text("1–9, that is all")
    assert numbers_of(page) == list(range(8, -1, -1))
    expect(page.locator(".message-id").first).to_have_text(re.compile(r"^\d+:2:2:-1$"))
    page.get_by_label("Partition").select_option("1")
    expect(page.locator("li.message")).to_have_count(3)
    assert numbers_of(page) == [7, 4, 1]


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_messages_are_downloaded(page_broker: Broker, visit: Open, batched: str, form: str, tmp_path: Path) -> None:
    page = visit(page_broker, place_of(batched, tab="messages&order=earliest&text=12"))
    expect(page.locator(".messages-card")).to_contain_text("50 fit")
    page.get_by_role("button", name="Download").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("As").select_option(form)
    dialog.get_by_label("Messages").select_option("on")
    dialog.get_by_label("At most").fill("120")
    with page.expect_download() as download:
        dialog.get_by_role("button", name="Download").click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    text = path.read_text()
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO(text)))
    else:
        rows = [json.loads(line) for line in text.splitlines()]
    wanted = [number for number in range(MESSAGES) if "12" in str(number)][:120]
    assert [json.loads(row["value"])["number"] for row in rows] == wanted
    first = rows[0]
    assert first["topic"] == batched
    assert first["key"] == "key-12"
    assert int(first["event_time_ms"]) == 1_700_000_000_012
    properties = first["properties"]
    assert (json.loads(properties) if form == "csv" else properties) == {"n": "12"}


def test_a_cell_of_csv_is_no_formula_and_a_message_is_copied(page_broker: Broker, visit: Open) -> None:
    topic = page_broker.topic("formula")
    page_broker.client().create_producer(topic, batching_enabled=False).send(b'=1+1,"a"')
    page = visit(page_broker, place_of(topic, tab="messages"), permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_text("Copied, as a line of JSON")).to_be_visible()
    record = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert (record["value"], record["topic"], record["properties"]) == ('=1+1,"a"', topic, {})
    page.get_by_role("button", name="Download").click()
    page.get_by_role("dialog").get_by_label("As").select_option("csv")
    with page.expect_download() as download:
        page.get_by_role("dialog").get_by_role("button", name="Download").click()
    rows = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
    assert [row["value"] for row in rows] == ['\'=1+1,"a"']


def test_reading_changes_nothing(page_broker: Broker, visit: Open) -> None:
    topic = page_broker.topic("looked")
    publish(page_broker, topic, range(20), batch=10)
    assert page_broker.rest("PUT", f"{topic_path(topic)}/subscription/sub", {"ledgerId": -1, "entryId": -1})[0] == 204
    page = visit(page_broker, place_of(topic, tab="messages"))
    expect(page.locator("li.message")).to_have_count(20)
    for tab in ("Schema", "Policies", "Now"):
        page.get_by_role("tab", name=tab).click()
    page.get_by_role("link", name="sub", exact=True).click()
    page.get_by_role("tab", name="Peek").click()
    expect(page.locator("li.message")).to_have_count(20)
    page.goto(f"{page_broker.admin_url}/{place_of(topic, 'nobody', 'messages')}")
    expect(page.get_by_role("alert").filter(has_text="no subscription of this name").first).to_be_visible()
    stats = page_broker.stats(topic)["subscriptions"]
    assert list(stats) == ["sub"]
    assert stats["sub"]["msgBacklog"] == 2, "entries"
    assert stats["sub"]["consumers"] == []
