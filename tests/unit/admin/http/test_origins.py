"""Web pages of foreign hosts change nothing; programs are never asked where they come from."""

import pytest

from spark_pulsar.admin.http.origins import AllowedHosts
from spark_pulsar.admin.http.refusals import Refused
from tests.cases import cases

BROWSER = {"user-agent": "Mozilla/5.0 (X11; Linux x86_64)"}
HOSTS = AllowedHosts("pulsar.example:6650", ("console.example", "fd00::7"))


def is_refused(method: str, headers: dict[str, str], *, changes: bool = False) -> bool:
    try:
        HOSTS.check(method, headers, changes=changes)
    except Refused as refused:
        return refused.status == 403 and "webServiceAllowedHosts" in refused.message
    return False


@cases("method", ["POST", "PUT", "DELETE", "PATCH"])
@cases(
    "headers",
    [
        {"host": "localhost:8080", "origin": "http://evil.example"},
        {"host": "localhost:8080", "origin": "null"},
        {"host": "localhost:8080", "origin": ""},
        {"host": "localhost:8080", "origin": "http://[broken"},
        {"host": "localhost:8080", "origin": "http://localhost.evil.example"},
        {"host": "127.0.0.1:8080", "origin": "http://203.0.113.9"},
        {"host": "evil.example:8080", "origin": "http://evil.example:8080"},
        {"host": "127.0.0.1:8080", "sec-fetch-site": "cross-site"},
        {"host": "127.0.0.1:8080", "sec-fetch-site": "same-site"},
        {"host": "evil.example:8080", "sec-fetch-site": "same-origin"},
        {"host": "evil.example:8080", **BROWSER},
        {"host": "evil.example:8080", "referer": "http://evil.example:8080/"},
        {"host": "localhost:8080", "referer": "http://evil.example/form.html"},
        {"origin": "http://evil.example"},
    ],
)
def test_a_foreign_page_changes_nothing(method: str, headers: dict[str, str]) -> None:
    # covers T-25
    assert is_refused(method, headers)


FOREIGN, OWN = {"host": "evil.example:8080"}, {"host": "localhost:8080"}
LANGUAGES = {"accept-language": "en"}


@pytest.mark.parametrize(
    "headers",
    [
        {**FOREIGN, **BROWSER},
        {**FOREIGN, **BROWSER, "sec-fetch-site": "same-origin"},
        {**FOREIGN, "sec-fetch-site": "none"},
        {**FOREIGN, "referer": "http://evil.example:8080/"},
        {**FOREIGN, "user-agent": "curl/8", **LANGUAGES},
        BROWSER,
    ],
    ids=str,
)
def test_a_page_reads_nothing_under_a_name_of_its_own(headers: dict[str, str]) -> None:
    # covers SEC-41
    assert is_refused("GET", headers)
    assert is_refused("HEAD", headers)
    assert not is_refused("GET", {**headers, **OWN})
    assert not is_refused("GET", {**headers, "host": "192.0.2.1:8080"}), "an address is nobody's name"
    assert not is_refused("GET", {**headers, "host": "console.example:8080"})


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"user-agent": "curl/8"},
        {"user-agent": "Pulsar-Java-v4.0.8"},
        {"user-agent": "node", "accept-language": "*", "sec-fetch-mode": "cors"},
    ],
    ids=str,
)
def test_programs_read_under_any_name(headers: dict[str, str]) -> None:
    # covers SEC-41, T-25
    assert not is_refused("GET", {**FOREIGN, **headers})
    assert not is_refused("GET", {**FOREIGN, **headers}, changes=True)


@pytest.mark.parametrize(
    ("headers", "refused"),
    [
        ({"sec-fetch-site": "cross-site"}, True),
        ({"sec-fetch-site": "same-site"}, True),
        ({"sec-fetch-site": "cross-site", "referer": "http://localhost:3000/"}, False),
        ({"sec-fetch-site": "same-origin"}, False),
        ({"sec-fetch-site": "none"}, False),
        (BROWSER, True),
        ({**BROWSER, "referer": "http://evil.example/"}, True),
        ({**BROWSER, "referer": "http://localhost:8080/console"}, False),
        (LANGUAGES, True),
    ],
    ids=str,
)
def test_what_changes_something_by_reading_is_for_own_pages(headers: dict[str, str], refused: bool) -> None:
    # covers SEC-41
    assert is_refused("GET", {**OWN, **headers}, changes=True) == refused
    assert not is_refused("GET", {**OWN, **headers})


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "broker:8080"},
        {"host": "broker:8080", "user-agent": "Pulsar-Java-v4.0.8"},
        {"host": "localhost:8080", "origin": "http://localhost:8080"},
        {"host": "localhost:8080", "origin": "http://localhost:3000"},
        {"host": "127.0.0.1:8080", "origin": "http://app.localhost"},
        {"host": "192.0.2.1:8080", "origin": "http://192.0.2.1:8080"},
        {"host": "[2001:db8::1]:8080", "origin": "http://[2001:db8::1]:8080"},
        {"host": "pulsar.example:8080", "origin": "https://pulsar.example"},
        {"host": "broker:8080", "origin": "https://console.example"},
        {"host": "broker:8080", "origin": "http://[fd00::7]:9527"},
        {"host": "localhost:8080", "sec-fetch-site": "same-origin"},
        {"host": "LOCALHOST:8080", **BROWSER},
    ],
    ids=str,
)
def test_programs_and_own_pages_are_served(headers: dict[str, str]) -> None:
    # covers T-25
    assert not is_refused("POST", headers)


def test_the_names_of_this_machine_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "Node7.lan.example")
    hosts = AllowedHosts()
    for name in ("node7", "node7.lan.example"):
        hosts.check("DELETE", {"host": f"{name}:8080", "origin": f"http://{name}:8080"})
