"""The page at `/` in a real Chromium, against a real broker."""

import base64
import http.client
import json
import re
import struct
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pulsar
import pytest
from playwright.sync_api import Page, expect
from pulsar.schema import AvroSchema, Boolean, Float, JsonSchema, Map, Record, String

import spark_pulsar
from tests.brokers import Broker, topic_path

from .conftest import Open

PRESENT = "document.dispatchEvent(new Event('visibilitychange'))"
"""Lets the page ask at once, as when its tab is looked at again."""


def place_of(topic: str, subscription: str = "", tab: str = "") -> str:
    """Address of a topic or subscription in the page."""
    domain, _, rest = topic.partition("://")
    tenant, namespace, local = rest.split("/", 2)
    parts = [tenant, namespace, domain, local, *([subscription] if subscription else [])]
    return "#/" + "/".join(urllib.parse.quote(part, safe="") for part in parts) + (f"?{tab}" if tab else "")


def with_backlog(broker: Broker, messages: int = 10, name: str = "page") -> tuple[str, pulsar.Producer]:
    """A topic whose subscription `sub` has a backlog of single messages, and a producer."""
    topic = broker.topic(name)
    assert broker.rest("PUT", f"{topic_path(topic)}/subscription/sub")[0] == 204
    producer = broker.client().create_producer(topic, batching_enabled=False)
    for index in range(messages):
        producer.send(f"message {index}".encode())
    return topic, producer


def backlog_of(broker: Broker, topic: str) -> int:
    """The backlog of `sub`."""
    backlog: int = broker.rest("GET", f"{topic_path(topic)}/stats")[1]["subscriptions"]["sub"]["msgBacklog"]
    return backlog


def tile(page: Page, label: str) -> Any:
    """The number of a tile."""
    return page.locator(".tile").filter(has=page.get_by_text(label, exact=True)).locator(".value")


def confirm(page: Page, name: str = "") -> None:
    """Confirms the open dialog, with a name if it asks for one, and waits until it is done."""
    dialog = page.get_by_role("dialog")
    if name:
        expect(dialog.locator("button[type=submit]")).to_be_disabled()
        dialog.get_by_label(f"Type {name} to confirm").fill(name)
    dialog.locator("button[type=submit]").click()
    expect(dialog).to_have_count(0)


NAMELESS = """[...document.querySelectorAll("button, a, input, select, svg[role=img], dialog, nav, section")].filter(
    (each) => {
      const id = (each.getAttribute("aria-labelledby") || "").split(" ")[0];
      const name = each.getAttribute("aria-label") || (id && document.getElementById(id)?.textContent)
        || (each.labels && each.labels.length) || each.querySelector(":scope > h2") || each.textContent.trim();
      return !name;
    }).map((each) => each.outerHTML)"""
"""Elements that a screen reader has no name for."""


def test_from_the_cluster_to_a_subscription(page_broker: Broker, visit: Open) -> None:
    topic, _ = with_backlog(page_broker, 3, "browse")
    local = topic.rpartition("/")[2]
    page = visit(page_broker)
    expect(page.get_by_role("heading", level=1)).to_have_text("standalone")
    expect(page.get_by_text("healthy")).to_be_visible()
    expect(page.locator(".badges")).to_contain_text(re.compile(r"up \d+ (s|min).*memory [\d.]+ MiB"))
    expect(tile(page, "Disk")).to_have_text(re.compile(r"[\d.]+ .iB"))
    page.get_by_label("Tenants and namespaces").get_by_role("link", name="default").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("public/default")
    page.get_by_role("link", name=local).click()
    expect(tile(page, "Backlog")).to_have_text("3")
    assert page.evaluate(NAMELESS) == []
    page.get_by_role("link", name="sub", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("sub")
    expect(page.get_by_label("Place").get_by_role("link")).to_have_text(
        ["standalone", "public", "default", local, "sub"]
    )
    page.get_by_label("Place").get_by_role("link", name="public").click()
    expect(page.get_by_role("link", name="public/default")).to_be_visible()


def test_numbers_and_plots_follow_what_is_published(page_broker: Broker, visit: Open) -> None:
    topic, producer = with_backlog(page_broker, 1, "live")
    page = visit(page_broker, place_of(topic))
    expect(tile(page, "Backlog")).to_have_text("1")
    for index in range(20):
        producer.send(f"more {index}".encode())
    page.evaluate(PRESENT)
    expect(tile(page, "Backlog")).to_have_text("21")
    expect(tile(page, "Messages in")).to_have_text(re.compile(r"[1-9][\d.,K]* /s"))
    rates = page.locator("figure").filter(has_text="Messages per second")
    expect(rates.locator(".legend .one output")).to_have_text(re.compile(r"[1-9]"))
    expect(page.locator("figure").filter(has_text="Backlog").locator("path.line")).to_have_attribute(
        "d", re.compile(r"^M[\d.,]+L")
    )
    expect(page.get_by_role("row").filter(has=page.get_by_role("link", name="sub", exact=True))).to_contain_text("21")


class Nested(Record):  # type: ignore[misc]
    """A part of a message."""

    label = String()
    weight = Float()


class Sample(Record):  # type: ignore[misc]
    """A message with a schema."""

    name = String(required=True)
    is_new = Boolean()
    nested = Nested()
    counts = Map(Float())


def test_messages_are_decoded_by_their_schemas(page_broker: Broker, visit: Open) -> None:
    sample = {"name": "kettle <b>", "is_new": True, "nested": Nested(label="ü", weight=0.25), "counts": {"a": 1.5}}
    topic = page_broker.topic("avro")
    page_broker.rest("PUT", f"{topic_path(topic)}/subscription/sub")
    client = page_broker.client()
    producer = client.create_producer(
        topic, schema=AvroSchema(Sample), batching_enabled=True, compression_type=pulsar.CompressionType.ZLib
    )
    for index in range(3):  # one batch
        producer.send_async(
            Sample(**sample), None, partition_key=f"schlüssel-{index}", properties={"n": str(index), "__proto__": "too"}
        )
    producer.flush()
    page = visit(page_broker, place_of(topic, "sub", "messages"))
    messages = page.locator("li.message")
    expect(messages).to_have_count(3)
    shown = json.loads(messages.nth(1).locator("pre").inner_text())
    assert shown == sample | {"nested": {"label": "ü", "weight": 0.25}}
    expect(messages.nth(1)).to_contain_text("AVRO v0")
    expect(messages.nth(1)).to_contain_text("schlüssel-1")
    expect(messages.nth(1).locator(".pairs dt")).to_have_text(["n", "__proto__"])
    assert backlog_of(page_broker, topic) == 3 or backlog_of(page_broker, topic) == 1, "peeking takes nothing"

    topic = page_broker.topic("json")
    client.create_producer(topic, schema=JsonSchema(Sample), batching_enabled=False).send(
        Sample(**sample), partition_key="schlüssel 日本"
    )
    page = visit(page_broker, place_of(topic, tab="messages"))
    expect(messages_of(page)).to_contain_text('"label": "ü"')
    expect(messages_of(page)).to_contain_text("schlüssel 日本")
    page.get_by_role("tab", name="Schema").click()
    expect(page.locator("pre")).to_contain_text('"is_new"')

    plain = page_broker.topic("plain")
    producer = client.create_producer(plain, batching_enabled=False)
    for payload in (bytes([0, 255, 65, 66]), b"text", b'{"a": 1}'):
        producer.send(payload)
    page = visit(page_broker, place_of(plain, tab="messages"))
    expect(page.locator("li.message .badge")).to_have_text(["JSON", "text", "bytes"])
    expect(page.locator("li.message pre").last).to_contain_text("00 ff 41 42")


@pytest.mark.parametrize("encoding", ["INLINE", "SEPARATED"])
def test_key_and_value_are_decoded_by_their_own_schemas(page_broker: Broker, visit: Open, encoding: str) -> None:
    topic = page_broker.topic("pairs")
    value_schema = {"type": "record", "name": "Sold", "fields": [{"name": "item", "type": "string"}]}
    properties = {"key.schema.type": "INT32", "value.schema.type": "AVRO", "kv.encoding.type": encoding}
    schema = {"type": "KEY_VALUE", "schema": json.dumps({"key": "", "value": value_schema}), "properties": properties}
    place = topic_path(topic).replace("/persistent/", "/schemas/")
    assert page_broker.rest("POST", f"{place}/schema", schema)[0] == 200
    key, value = struct.pack(">i", 65), b"\x08b\xc3\xb6n"
    metadata: dict[str, Any] = {"schema_version": bytes(8)}
    if encoding == "INLINE":
        value = b"".join(len(part).to_bytes(4, "big") + part for part in (key, value))
    else:
        metadata |= {"partition_key": base64.b64encode(key).decode(), "partition_key_b64_encoded": True}
    raw = page_broker.raw()
    raw.request("PRODUCER", topic=topic, producer_id=1)
    raw.send_message(1, 0, value, metadata=metadata)
    raw.expect("SEND_RECEIPT")
    page = visit(page_broker, place_of(topic, tab="messages"))
    message = page.locator("li.message")
    expect(message).to_contain_text("KEY_VALUE v0")
    assert json.loads(message.locator("pre").inner_text()) == {"key": 65, "value": {"item": "bön"}}


def messages_of(page: Page) -> Any:
    """The messages that are shown."""
    return page.locator("ol.messages")


def test_actions_ask_first_and_take_effect(page_broker: Broker, visit: Open) -> None:
    topic, _ = with_backlog(page_broker, 10, "actions")
    page = visit(page_broker, place_of(topic, "sub"))

    page.get_by_role("button", name="Skip").click()
    page.get_by_role("button", name="Cancel").click()
    assert backlog_of(page_broker, topic) == 10
    page.get_by_role("button", name="Skip").click()
    assert page.evaluate(NAMELESS) == []
    page.get_by_label("Entries to skip").fill("4")
    expect(page.get_by_role("dialog")).to_contain_text("The next 4 of 10 entries")
    confirm(page)
    assert backlog_of(page_broker, topic) == 6
    expect(tile(page, "Backlog")).to_have_text("6")

    page.get_by_role("button", name="Clear backlog").click()
    confirm(page, "sub")
    assert backlog_of(page_broker, topic) == 0

    page.get_by_role("button", name="Reset cursor").click()
    confirm(page)  # to the oldest message; retention keeps what one ledger has
    assert backlog_of(page_broker, topic) == 10
    page.get_by_role("button", name="Reset cursor").click()
    page.get_by_label("To", exact=True).select_option("A message id")
    ledger = page_broker.rest("GET", f"{topic_path(topic)}/lastMessageId")[1]["ledgerId"]
    page.get_by_label("Message id").fill("nonsense")
    page.get_by_role("dialog").get_by_role("button", name="Reset cursor").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("LEDGER:ENTRY")
    page.get_by_label("Message id").fill(f"{ledger}:7")
    confirm(page)
    assert backlog_of(page_broker, topic) == 3

    page.get_by_role("button", name="Expire messages").click()
    page.get_by_label("Older than").select_option("Another age …")
    page.get_by_label("Seconds").fill("86400")
    confirm(page)
    assert backlog_of(page_broker, topic) == 3, "none is a day old"

    page.get_by_label("Place").get_by_role("link", name=re.compile("actions")).click()
    page.get_by_role("button", name="Unload").click()
    confirm(page)
    expect(page.get_by_text("is unloaded")).to_be_visible()
    page.get_by_role("link", name="sub", exact=True).click()
    page.get_by_role("button", name="Delete").click()
    confirm(page, "sub")
    assert page_broker.rest("GET", f"{topic_path(topic)}/subscriptions")[1] == []


def test_a_namespace_is_unloaded_and_its_backlogs_are_cleared(page_broker: Broker, visit: Open) -> None:
    namespace = "public/page-namespace"
    assert page_broker.rest("PUT", f"/admin/v2/namespaces/{namespace}", {})[0] == 204
    topics = [f"persistent://{namespace}/{name}" for name in ("one", "two")]
    for topic in topics:
        assert page_broker.rest("PUT", f"{topic_path(topic)}/subscription/sub")[0] == 204
    raw = page_broker.raw()
    for number, topic in enumerate(topics):
        raw.request("PRODUCER", topic=topic, producer_id=number)
        raw.send_message(number, 0, b"x")
        raw.expect("SEND_RECEIPT")
    page = visit(page_broker, f"#/{namespace}")
    page.get_by_role("button", name="Unload").click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Unload").click()
    confirm(page)
    expect(page.get_by_text(f"{namespace} is unloaded")).to_be_visible()
    assert {raw.expect("CLOSE_PRODUCER").fields["producer_id"] for _ in topics} == {0, 1}
    assert [backlog_of(page_broker, topic) for topic in topics] == [1, 1], "nothing is lost"

    page.get_by_role("button", name="Clear all backlogs").click()
    expect(page.get_by_role("dialog")).to_contain_text("(2)")
    confirm(page, namespace)
    expect(page.get_by_text(f"The backlogs of {namespace} are cleared")).to_be_visible()
    assert [backlog_of(page_broker, topic) for topic in topics] == [0, 0]


def test_a_refused_action_shows_the_reason(page_broker: Broker, visit: Open) -> None:
    topic, _ = with_backlog(page_broker, 1, "refused")
    page = visit(page_broker, place_of(topic))
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    name = topic.rpartition("/")[2]
    dialog.get_by_label(f"Type {name} to confirm").fill(name)
    dialog.get_by_role("button", name="Delete topic").click()
    expect(dialog.get_by_role("alert")).to_contain_text("412")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_policies_tell_where_they_come_from(page_broker: Broker, visit: Open) -> None:
    namespace = "public/page-policies"
    for method, path, body in (
        ("PUT", namespace, {}),
        ("POST", f"{namespace}/messageTTL", 3600),
        ("POST", f"{namespace}/retention", {"retentionTimeInMinutes": 90, "retentionSizeInMB": -1}),
    ):
        assert page_broker.rest(method, f"/admin/v2/namespaces/{path}", body)[0] == 204
    topic = f"persistent://{namespace}/t"
    page_broker.rest("PUT", topic_path(topic))
    page_broker.rest("POST", f"{topic_path(topic)}/messageTTL?messageTTL=60")
    page_broker.rest("POST", f"{topic_path(topic)}/maxConsumers?isGlobal=true", 7)
    page = visit(page_broker, place_of(topic, tab="policies"))

    def row(member: str) -> Any:
        return page.locator(f'tr[data-policy="{member}"] td')

    expect(row("message_ttl_in_seconds")).to_have_text(["60", "topic", re.compile("broker 0.*namespace 3,600")])
    expect(row("retention_policies").nth(1)).to_have_text("namespace")
    expect(row("retention_policies").nth(0)).to_contain_text("retention time in minutes 90")
    expect(row("max_consumers_per_topic").nth(1)).to_have_text("topic, all clusters")
    expect(row("max_producers_per_topic").nth(1)).to_contain_text("maxProducersPerTopic")
    page.get_by_label("set here or above only").check()
    expect(page.locator("tr[data-policy]")).to_have_count(3)
    page.goto(f"{page_broker.admin_url}/#/{namespace}?policies")
    expect(row("message_ttl_in_seconds").first).to_have_text("3,600")


def test_light_dark_and_as_the_system_has_it(page_broker: Broker, visit: Open) -> None:
    page = visit(page_broker, color_scheme="dark")

    def ground() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    dark = ground()
    page.emulate_media(color_scheme="light")
    light = ground()
    assert dark != light
    page.keyboard.press("t")
    page.keyboard.press("t")
    assert ground() == dark
    page.reload()
    assert ground() == dark, "it is remembered"
    page.add_init_script("Object.defineProperty(window, 'localStorage', { get() { throw new Error('not allowed') } })")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("standalone")
    assert ground() == light, "without a storage it is as the system has it"


def test_everything_is_done_by_keys(page_broker: Broker, visit: Open) -> None:
    topic, _ = with_backlog(page_broker, 2, "keys")
    local = topic.rpartition("/")[2]
    page = visit(page_broker)
    expect(page.get_by_role("link", name=local)).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Filter the table")
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type(local)
    expect(page.locator("tbody tr:has(a)")).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(local)
    page.keyboard.press("2")
    expect(page.get_by_role("tab", name="Messages")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("1")
    expect(page.get_by_role("link", name="sub", exact=True)).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("link", name="sub", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Clear backlog").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Type sub to confirm")).to_be_focused()
    page.keyboard.type("sub")
    page.keyboard.press("Enter")
    expect(page.get_by_text("The backlog of sub is cleared")).to_be_visible()
    assert backlog_of(page_broker, topic) == 0
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", level=1)).to_have_text(local)
    page.keyboard.press("g")
    page.keyboard.type("public/default")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("public/default")


HOSTILE = "<img src=x onerror=alert(1)>\"'`${alert(2)}<svg onload=alert(3)>"


def test_names_and_messages_stay_text(page_broker: Broker, visit: Open) -> None:
    topic = f"persistent://public/default/{HOSTILE}"
    assert page_broker.rest("PUT", topic_path(topic))[0] == 204
    quoted = urllib.parse.quote(HOSTILE, safe="")
    assert page_broker.rest("PUT", f"{topic_path(topic)}/subscription/{quoted}")[0] == 204
    client = page_broker.client()
    producer = client.create_producer(topic, producer_name=HOSTILE, batching_enabled=False)
    producer.send(HOSTILE.encode(), {HOSTILE: HOSTILE}, partition_key=HOSTILE)
    client.subscribe(topic, HOSTILE, consumer_name=HOSTILE, receiver_queue_size=1)
    page = visit(page_broker, "#/public/default")
    page.get_by_role("link", name=HOSTILE).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    expect(page.get_by_role("cell", name=HOSTILE)).to_have_count(2)  # a producer, a subscription
    page.get_by_role("link", name=HOSTILE).last.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    page.get_by_role("button", name="Clear backlog").click()
    expect(page.get_by_label(f"Type {HOSTILE} to confirm")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("tab", name="Peek").click()
    expect(page.locator("pre")).to_have_text(HOSTILE)
    expect(page.locator(".message-key b")).to_have_text(HOSTILE)
    assert page.locator("main img, main script").count() == 0


def test_a_thousand_topics_stay_responsive(page_broker: Broker, visit: Open) -> None:
    assert page_broker.rest("PUT", "/admin/v2/namespaces/public/many", {})[0] == 204
    make_topics(page_broker, "public/many", 1000)
    page = visit(page_broker, "#/public/many")
    expect(page.locator(".tally").first).to_have_text("1000")
    assert page.locator("tbody tr:has(a)").count() < 60, "rows in view alone are elements"
    begin = time.monotonic()
    page.keyboard.press("/")
    page.keyboard.type("0999")
    expect(page.locator("tbody tr:has(a)")).to_have_count(1)
    expect(page.get_by_role("link", name="many-0999")).to_be_visible()
    page.get_by_role("searchbox").fill("")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    expect(page.get_by_role("link", name="many-0999")).to_be_focused()
    assert time.monotonic() - begin < 15, "a second on a quiet machine"


def make_topics(broker: Broker, namespace: str, number: int) -> None:
    """Makes topics `many-0000` and on, over some connections at once."""

    def make(first: int) -> None:
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(broker.admin_url).netloc, timeout=60)
        for index in range(first, number, 16):
            connection.request("PUT", f"/admin/v2/persistent/{namespace}/many-{index:04}")
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 204
        connection.close()

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(make, range(16)))


def test_the_index_names_every_module_at_an_address_that_is_kept(page_broker: Broker) -> None:
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(page_broker.admin_url).netloc, timeout=60)

    def fetched(path: str) -> tuple[int, str, str]:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.headers.get("Cache-Control", ""), answer.read().decode()

    status, kept, index = fetched("/")
    assert (status, kept) == (200, "no-cache")
    addresses = re.findall(r'(?:href|src)="(/page/[^"]+)"', index)
    folder = Path(spark_pulsar.__file__).parent / "admin/page/static"
    assert {path.rpartition("/")[2] for path in addresses} == {path.name for path in folder.iterdir()} - {"index.html"}
    for path in set(addresses):
        status, kept, content = fetched(path)
        assert (status, kept) == (200, "public, max-age=31536000, immutable")
        assert content == (folder / path.rpartition("/")[2]).read_text()
    older = addresses[0].rpartition("/")[2]
    assert fetched(f"/page/0123456789abcdef/{older}")[:2] == (200, "no-cache"), "of another release, not to be kept"
    assert fetched(f"/page/x/y/{older}")[0] == 404
    connection.close()


@pytest.mark.parametrize("name", ["", "page/app.js", "page/page.css", "page/icon.svg", "page/policies.json"])
def test_files_come_with_a_tag_and_a_policy(page_broker: Broker, name: str) -> None:
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(page_broker.admin_url).netloc, timeout=60)
    connection.request("GET", f"/{name}")
    answer = connection.getresponse()
    body = answer.read()
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    connection.request("GET", f"/{name}", headers={"If-None-Match": answer.headers["ETag"]})
    again = connection.getresponse()
    assert (again.status, again.read()) == (304, b"")
    connection.request("HEAD", f"/{name}")
    head = connection.getresponse()
    assert (head.status, head.read(), int(head.headers["Content-Length"])) == (200, b"", len(body))
    connection.close()


def test_why_a_subscription_receives_nothing(page_broker: Broker, visit: Open) -> None:
    # covers WHY-8
    topic, _ = with_backlog(page_broker, 3, "why")
    page = visit(page_broker, place_of(topic, "sub"))
    card = page.locator(".why")
    expect(card.get_by_role("status")).to_have_text("1 cause found")
    expect(card.get_by_role("listitem")).to_have_text(
        re.compile(r'^cause No consumer is connected to "sub"; its 3 messages wait, the oldest since ')
    )
    expect(card.locator(".advice code")).to_have_text(
        re.compile(r"^spark-pulsar admin topics peek-messages -s sub -n 10 why-")
    )
    expect(card.locator(".command")).to_have_text(f"spark-pulsar why {topic} sub")
    assert page.evaluate(NAMELESS) == []
    consumer = page_broker.client().subscribe(topic, "sub", receiver_queue_size=1)
    card.get_by_role("button", name="Check again").click()
    expect(card.locator("[data-cause=no-permits]")).to_contain_text("has no permits")
    consumer.close()

    page.get_by_label("Place").get_by_role("link", name=re.compile("why")).click()
    page.get_by_role("tab", name="Diagnosis").click()
    expect(card.get_by_role("listitem").first).to_contain_text('No consumer is connected to "sub"')
    expect(card.locator(".command")).to_have_text(f"spark-pulsar why {topic}")
    bare = page_broker.topic("unread")
    assert page_broker.rest("PUT", topic_path(bare))[0] == 204
    page.goto(f"{page_broker.admin_url}/{place_of(bare, tab='why')}")
    expect(card.get_by_role("listitem")).to_contain_text("no subscription", ignore_case=True)
