"""The page on a broker with authentication and authorization: what each role sees, and what it is told."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.access.roles import NAMESPACE, SUBSCRIPTION, TOKENS, TOPIC
from tests.brokers import Broker
from tests.conftest import started

from .conftest import Open


def sign_in(page: Page, token: str) -> None:
    """Signs in with a token."""
    dialog = page.get_by_role("dialog", name="Sign in")
    dialog.get_by_label("Token").fill(token)
    dialog.get_by_role("button", name="Sign in").click()


def test_a_super_user_signs_in_with_a_token(secured: Broker, visit: Open) -> None:
    page = visit(secured)
    expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()
    sign_in(page, "no token at all")
    expect(page.get_by_role("alert")).to_contain_text("Failed to authenticate")
    sign_in(page, TOKENS["admin"])
    expect(page.get_by_text("healthy")).to_be_visible()
    expect(page.get_by_role("link", name=f"{NAMESPACE}/{TOPIC}")).to_be_visible()
    page.reload()
    expect(page.get_by_text("healthy")).to_be_visible()
    kept = page.evaluate("[Object.values(localStorage).join(), document.cookie, sessionStorage.length]")
    assert TOKENS["admin"] not in kept[0]
    assert kept[1:] == ["", 1]
    page.get_by_role("button", name="Sign out admin").click()
    expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0
    expect(page.get_by_role("link", name=f"{NAMESPACE}/{TOPIC}")).to_have_count(0)


def test_a_user_signs_in_with_a_password(secured: Broker, visit: Open) -> None:
    page = visit(secured, "#/own/space")
    dialog = page.get_by_role("dialog", name="Sign in")
    dialog.get_by_label("With").select_option("User and password")
    dialog.get_by_label("User").fill("admin")
    dialog.get_by_label("Password").fill("hunter2")
    dialog.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("link", name=TOPIC, exact=True)).to_be_visible()
    page.keyboard.press("c")
    expect(page.get_by_role("dialog").locator("pre")).to_contain_text('AuthenticationBasic("USER", "PASSWORD")')


def test_a_consumer_sees_its_topics_and_is_told_what_it_may_not(secured: Broker, visit: Open) -> None:
    page = visit(secured)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    sign_in(page, TOKENS["consumer"])
    expect(page.get_by_role("alert")).to_contain_text("This operation requires super-user access")
    asked.clear()
    for _ in range(3):
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        expect(page.locator("#pulse")).to_have_text("live")
    assert not [url for url in asked if "broker-stats" in url], "a refusal is not asked for again and again"
    page.keyboard.press("g")
    page.keyboard.type(NAMESPACE)
    page.keyboard.press("Enter")
    page.get_by_role("link", name=TOPIC, exact=True).click()
    page.get_by_role("link", name=SUBSCRIPTION, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(SUBSCRIPTION)
    page.get_by_role("button", name="Skip").click()
    page.get_by_role("dialog").get_by_role("button", name="Skip").click()
    expect(page.get_by_role("dialog")).to_have_count(0)  # a consumer may skip

    page.goto(f"{secured.admin_url}/#/own/space/persistent/{TOPIC}?policies")
    expect(page.get_by_role("alert")).to_contain_text(re.compile(r"Not permitted: policies.*403.*policy \[ALL\]"))
    page.get_by_role("button", name="Unload").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Unload").click()
    expect(dialog.get_by_role("alert")).to_contain_text(re.compile(r"Refused \(401\).*operation \[UNLOAD\]"))
    page.keyboard.press("Escape")

    page.goto(f"{secured.admin_url}/#/other/space")
    expect(page.get_by_role("alert")).to_contain_text("GET_TOPICS")


def test_a_page_that_is_turned_off_is_not_there(tmp_path_factory: pytest.TempPathFactory) -> None:
    with started("ours", tmp_path_factory.mktemp("page-off"), {"webPageEnabled": "false"}) as broker:
        assert broker.rest("GET", "/") == (404, {"reason": "The page is turned off: webPageEnabled=false"})
        assert broker.rest("GET", "/page/app.js")[0] == 404
        assert broker.rest("GET", "/page/why?topic=orders")[0] == 404


def test_a_diagnosis_shows_a_role_no_more_than_its_own_requests(secured: Broker) -> None:
    # covers WHY-8, AU-6
    path = f"/page/why?topic=persistent://{NAMESPACE}/{TOPIC}&subscription={SUBSCRIPTION}"
    assert secured.rest("GET", path) == (401, {"reason": "Authentication required"})
    status, answer = secured.rest("GET", path, headers={"Authorization": f"Bearer {TOKENS['stranger']}"})
    assert (status, "Unauthorized to" in answer["reason"]) == (401, True) or status == 403, answer
    status, findings = secured.rest("GET", path, headers={"Authorization": f"Bearer {TOKENS['consumer']}"})
    assert status == 200
    assert "not-seen" in [finding["cause"] for finding in findings], findings
    status, findings = secured.rest("GET", path, headers={"Authorization": f"Bearer {TOKENS['admin']}"})
    assert (status, "not-seen" in [finding["cause"] for finding in findings]) == (200, False)
