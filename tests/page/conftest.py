"""A browser and brokers for the tests of the page: one of each, and a page for each test."""

import base64
from collections.abc import Callable, Iterator

import bcrypt
import pytest
from playwright.sync_api import Browser, Page, Request, expect

from tests.access.roles import CONFIGURATION, Rest, set_up
from tests.brokers import Broker
from tests.conftest import started

from .browser import chromium, launched

Open = Callable[..., Page]
PATIENCE_MS = 20_000
"""Time for a step of a page, on a machine that has other work."""
expect.set_options(timeout=PATIENCE_MS)
_HASH = bcrypt.hashpw(b"hunter2", bcrypt.gensalt(4)).decode()


@pytest.fixture(scope="package")  # while it is open, its event loop runs in this process: no other test may
def browser() -> Iterator[Browser]:
    if chromium() is None:
        pytest.skip("no Chromium here: .ci/setup browser installs it")
    with launched() as found:
        yield found


@pytest.fixture(scope="package")
def page_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of ours, whichever one the suite is run with: Apache Pulsar has no such page."""
    with started("ours", tmp_path_factory.mktemp("page-broker")) as broker:
        yield broker
        broker.close_since(0)


@pytest.fixture(scope="package")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for tokens, and for the user `admin` with a password."""
    conf = CONFIGURATION | {
        "authenticationProviders": "token,basic",
        "basicAuthConf": "data:;base64," + base64.b64encode(f"admin:{_HASH}\n".encode()).decode(),
    }
    with started("ours", tmp_path_factory.mktemp("page-secured"), conf) as broker:
        rest = Rest(broker.admin_url)
        set_up(rest)
        rest.close()
        yield broker


@pytest.fixture
def visit(browser: Browser) -> Iterator[Open]:
    """Opens a place of a broker's page in a context of its own; at the end nothing had gone wrong in any of them: no
    request left the broker, no script failed, nothing was against the page's own policy."""
    contexts = []
    troubles: list[str] = []

    def opened(broker: Broker, place: str = "#/", **settings: object) -> Page:
        context = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce", **settings)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)

        def check(request: Request) -> None:
            if not request.url.startswith(f"{broker.admin_url}/"):
                troubles.append(f"request to {request.url}")

        page.on("request", check)
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("dialog", lambda dialog: troubles.append(f"dialog: {dialog.message}"))
        page.on(
            "console",
            lambda message: troubles.append(message.text) if "Content Security Policy" in message.text else None,
        )
        page.goto(f"{broker.admin_url}/{place}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not troubles
