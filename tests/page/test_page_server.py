"""`spark-pulsar page`: the page for any Pulsar, ours and Apache's, and what its server refuses."""

import contextlib
import http.client
import json
import re
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.access.roles import NAMESPACE, TOKENS, TOPIC
from tests.brokers import Broker, topic_path

from .conftest import Open
from .test_messages import numbers_of, publish
from .test_page import place_of


@contextlib.contextmanager
def page_of(broker: Broker, *options: str) -> Iterator[tuple[Broker, str]]:
    """The page of a broker, and the key of its run."""
    addresses = ["--service-url", broker.service_url, "--admin-url", broker.admin_url]
    program = [str(Path(sys.executable).with_name("spark-pulsar")), "page", "--port", "0", *addresses, *options]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            match = re.search(r"(http://127\.0\.0\.1:\d+)/\?key=(\S+)", process.stdout.readline())
            assert match
            yield Broker("ours", broker.service_url, match[1]), match[2]
        finally:
            process.terminate()
            assert process.wait(30) == 0


@pytest.fixture(scope="module")
def served(broker: Broker) -> Iterator[tuple[Broker, str]]:
    """The page of the suite's broker, which may be an Apache Pulsar."""
    with page_of(broker) as page:
        yield page


@pytest.mark.long
def test_the_page_of_any_pulsar(served: tuple[Broker, str], broker: Broker, visit: Open) -> None:
    server, key = served
    topic = broker.topic("anywhere")
    assert broker.rest("PUT", topic_path(topic))[0] == 204
    assert broker.rest("PUT", f"{topic_path(topic)}/subscription/sub", {"ledgerId": -1, "entryId": -1})[0] == 204
    publish(broker, topic, range(3000))
    page = visit(server, f"?key={key}")
    expect(page.get_by_text("healthy")).to_be_visible(timeout=30_000)
    expect(page).to_have_url(f"{server.admin_url}/")
    expect(page.get_by_role("button", name="Sign in")).to_be_hidden()
    page.keyboard.press("c")
    expect(page.get_by_role("dialog", name="Connect")).to_contain_text(broker.service_url)
    page.keyboard.press("Escape")

    page.goto(f"{server.admin_url}/{place_of(topic, tab='messages')}")
    expect(page.locator("li.message")).to_have_count(50, timeout=30_000)
    assert numbers_of(page) == list(range(2999, 2949, -1))
    page.get_by_label("Property").fill("n=1234")
    expect(page.locator("li.message")).to_have_count(1)
    page.get_by_label("Property").fill("")
    page.get_by_role("button", name="Produce", exact=True).click()
    page.get_by_role("dialog").get_by_label("Value", exact=True).fill('{"number": 5000}')
    page.get_by_role("dialog").get_by_label("Key").fill("größe")
    page.get_by_role("dialog").get_by_role("button", name="Produce").click()
    expect(page.get_by_text("Produced a message")).to_be_visible(timeout=30_000)
    page.get_by_role("button", name="Reload").click()
    expect(page.locator("li.message pre").first).to_have_text('{ "number": 5000 }')

    page.goto(f"{server.admin_url}/{place_of(topic, 'sub', 'messages')}")
    expect(page.locator("li.message")).to_have_count(50, timeout=30_000)
    assert numbers_of(page) == list(range(50))
    page.goto(f"{server.admin_url}/{place_of(topic, 'sub')}")
    expect(page.locator("li[data-cause=no-consumer]")).to_contain_text(
        "its 4 entries of about 750 messages wait", timeout=30_000
    )  # covers WHY-8
    page.goto(f"{server.admin_url}/{place_of(topic, 'nobody', 'messages')}")
    expect(page.get_by_role("alert").filter(has_text="no subscription of this name").first).to_be_visible()
    assert broker.rest("GET", f"{topic_path(topic)}/subscriptions")[1] == ["sub"], "reading makes no subscription"


def test_policies_of_any_pulsar_are_changed(served: tuple[Broker, str], broker: Broker, visit: Open) -> None:
    server, key = served
    namespace = broker.namespace()
    page = visit(server, f"?key={key}")
    expect(page.get_by_text("healthy")).to_be_visible(timeout=30_000)
    page.goto(f"{server.admin_url}/#/{namespace}?policies")
    page.get_by_role("button", name="Set message TTL in seconds").click()
    page.get_by_role("dialog").get_by_label(re.compile("^message TTL")).fill("120")
    page.get_by_role("dialog").get_by_role("button", name="Set", exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert broker.rest("GET", f"/admin/v2/namespaces/{namespace}/messageTTL")[1] == 120
    expect(page.locator('tr[data-policy="message_ttl_in_seconds"] td').nth(1)).to_contain_text("namespace")


def answer_of(server: Broker, method: str, path: str, headers: dict[str, str], body: bytes | None = None) -> int:
    """The status of one request with these headers alone."""
    netloc = urllib.parse.urlsplit(server.admin_url).netloc
    connection = http.client.HTTPConnection(netloc, timeout=60)
    try:
        connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_server_of_the_page_is_no_open_proxy(served: tuple[Broker, str]) -> None:  # covers SEC-90
    server, key = served
    netloc = urllib.parse.urlsplit(server.admin_url).netloc
    port = netloc.partition(":")[2]
    own = {"Host": netloc, "Cookie": f"spark-pulsar-page-{port}={key}"}
    tenants = "/admin/v2/tenants"
    assert answer_of(server, "GET", tenants, own) == 200
    assert answer_of(server, "GET", tenants, {}) == 403
    assert answer_of(server, "GET", tenants, {"Cookie": f"spark-pulsar-page-{port}=guessed"}) == 403
    assert answer_of(server, "GET", "/?key=guessed", {}) == 403
    assert answer_of(server, "GET", f"/?key={key}", {"Host": "evil.example"}) == 403
    assert answer_of(server, "GET", tenants, own | {"Host": f"evil.example:{port}"}) == 403
    assert answer_of(server, "GET", tenants, own | {"Sec-Fetch-Site": "cross-site"}) == 403
    assert answer_of(server, "GET", tenants, own | {"Sec-Fetch-Site": "same-site"}) == 403
    for path in (
        *("/metrics", "/admin/v3/functions", "/ws/v2/reader/persistent/public/default/t", f"http://{netloc}/metrics"),
        *("//evil.example/admin/v2/tenants", "http://evil.example/admin/v2/tenants", "/admin/v2/../../metrics"),
        *("/admin/v2/%2e%2e/%2E./metrics", "/admin/v2/..;/..;/metrics", "/lookup/v2/topic/persistent/a/b/c"),
    ):
        assert answer_of(server, "GET", path, own) == 404, path
    made = "/admin/v2/tenants/page-forged"
    body = json.dumps({"adminRoles": [], "allowedClusters": ["standalone"]}).encode()
    sized = own | {"Content-Type": "application/json", "Content-Length": str(len(body))}
    assert answer_of(server, "PUT", made, sized, body) == 403, "no Origin"
    assert answer_of(server, "PUT", made, sized | {"Origin": "http://evil.example"}, body) == 403
    assert answer_of(server, "PUT", made, sized | {"Origin": "null"}, body) == 403
    large = own | {"Origin": f"http://{netloc}", "Content-Length": str((1 << 20) + 1)}
    assert answer_of(server, "PUT", made, large) == 413
    chunked = own | {"Origin": f"http://{netloc}", "Transfer-Encoding": "chunked"}
    assert answer_of(server, "PUT", made, chunked) == 411
    assert answer_of(server, "GET", made, own) == 404, "none of them was made"
    assert answer_of(server, "PUT", made, sized | {"Origin": f"http://{netloc}"}, body) == 200
    assert answer_of(server, "DELETE", made, own | {"Origin": f"http://{netloc}"}) == 200


def test_the_page_has_the_rights_of_its_credentials(secured: Broker, visit: Open) -> None:
    with page_of(secured, "--auth-plugin", "token", "--auth-params", f"token:{TOKENS['admin']}") as (server, key):
        page = visit(server, f"?key={key}")
        expect(page.get_by_role("link", name=f"{NAMESPACE}/{TOPIC}")).to_be_visible()
        shown = page.evaluate("[document.cookie, JSON.stringify({...localStorage, ...sessionStorage})].join()")
        assert TOKENS["admin"] not in shown + page.content()
    with page_of(secured) as (server, key):
        page = visit(server, f"?key={key}")
        expect(page.get_by_text("Authentication required").first).to_be_visible()
        expect(page.get_by_role("dialog")).to_have_count(0)
