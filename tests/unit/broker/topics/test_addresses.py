"""Addresses that lookups answer: the one that a client came by, an advertised one, those of a listener."""

from typing import Any

import pytest

from spark_pulsar.broker.configuration.addresses import Ports, listeners
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.unit.admin.test_app import call
from tests.unit.broker.world import TOPIC, World

BOTH = Ports(binary=6650, http=8080, binary_tls=6651, http_tls=8443)
TLS_ALONE = Ports(binary=None, http=None, binary_tls=6651, http_tls=8443)
LISTENERS = listeners(
    "inside:pulsar://10.0.0.1:6650, inside:pulsar+ssl://10.0.0.1:6651,outside:pulsar+ssl://[2001:db8::1]:7000,"
    "web:http://web.example:80"
)


def looked_up(local: str, *, is_tls: bool = False, listener: str = "", **config: Any) -> Any:
    """The answer to LOOKUP of a client that came to this address."""
    world = World(**config)
    client = world.open_socket(local, is_tls=is_tls)
    client.send(requests.connect("test"))
    client.take()
    return client.request(requests.lookup(1, TOPIC, listener_name=listener), BaseCommand.LOOKUP_RESPONSE)


def urls(answer: Any) -> tuple[str | None, str | None]:
    """The addresses without and with TLS; None where a field is absent."""
    plain = answer.brokerServiceUrl if answer.HasField("brokerServiceUrl") else None
    return plain, answer.brokerServiceUrlTls if answer.HasField("brokerServiceUrlTls") else None


@pytest.mark.parametrize(
    ("local", "is_tls", "ports", "answered"),
    [
        ("10.0.0.9:6650", False, Ports(), ("pulsar://10.0.0.9:6650", None)),
        ("10.0.0.9:6650", False, BOTH, ("pulsar://10.0.0.9:6650", "pulsar+ssl://10.0.0.9:6651")),
        ("10.0.0.9:6651", True, BOTH, ("pulsar://10.0.0.9:6650", "pulsar+ssl://10.0.0.9:6651")),
        ("[::1]:6651", True, TLS_ALONE, (None, "pulsar+ssl://[::1]:6651")),
    ],
)
def test_a_client_is_sent_to_the_address_that_it_came_by(
    local: str, is_tls: bool, ports: Ports, answered: tuple[str | None, str | None]
) -> None:
    # covers A4, SEC-46
    answer = looked_up(local, is_tls=is_tls, ports=ports)
    assert (urls(answer), answer.proxy_through_service_url) == (answered, True)


@pytest.mark.parametrize(
    ("advertised", "answered"),
    [
        ("broker.example", ("pulsar://broker.example:6650", "pulsar+ssl://broker.example:6651")),
        ("broker.example:7000", ("pulsar://broker.example:7000", "pulsar+ssl://broker.example:6651")),
        ("[2001:db8::1]:7000", ("pulsar://[2001:db8::1]:7000", "pulsar+ssl://[2001:db8::1]:6651")),
    ],
)
def test_an_advertised_address(advertised: str, answered: tuple[str, str]) -> None:
    # covers A4, SEC-46
    assert urls(looked_up("10.0.0.9:6650", ports=BOTH, advertised_address=advertised)) == answered


@pytest.mark.parametrize(
    ("named", "internal", "answered"),
    [
        ("", "", ("pulsar://10.0.0.1:6650", "pulsar+ssl://10.0.0.1:6651")),
        ("", "outside", (None, "pulsar+ssl://[2001:db8::1]:7000")),
        ("outside", "", (None, "pulsar+ssl://[2001:db8::1]:7000")),
        ("inside", "outside", ("pulsar://10.0.0.1:6650", "pulsar+ssl://10.0.0.1:6651")),
        ("web", "", (None, None)),
    ],
)
def test_listeners_are_looked_up_by_name(named: str, internal: str, answered: tuple[str | None, str | None]) -> None:
    # covers SEC-47
    config = {"advertised_listeners": LISTENERS, "internal_listener": internal, "advertised_address": "other"}
    assert urls(looked_up("10.0.0.9:6650", listener=named, **config)) == answered


PATH = "/lookup/v2/topic/persistent/public/default/t"


def test_lookups_over_http() -> None:
    # covers A4, SEC-46, SEC-47
    assert call(World(), "GET", PATH, host="h:1080")[2] == {
        "brokerUrl": "pulsar://h:6650",
        "brokerUrlTls": "",
        "httpUrl": "http://h:1080",
        "nativeUrl": "pulsar://h:6650",
        "brokerUrlSsl": "",
    }
    assert call(World(ports=TLS_ALONE), "GET", PATH, host="h:1443", scheme="https")[2] == {
        "brokerUrl": "",
        "brokerUrlTls": "pulsar+ssl://h:6651",
        "httpUrlTls": "https://h:1443",
        "brokerUrlSsl": "",
    }
    listened = World(advertised_listeners=LISTENERS)
    assert call(listened, "GET", f"{PATH}?listenerName=web")[2]["httpUrl"] == "http://web.example:80"
    by_header = call(listened, "GET", PATH, **{"x-pulsar-listenername": "outside"})[2]
    assert by_header["brokerUrlTls"] == "pulsar+ssl://[2001:db8::1]:7000"
    both = call(listened, "GET", f"{PATH}?listenerName=inside", **{"x-pulsar-listenername": "outside"})[2]
    assert both["brokerUrl"] == "pulsar://10.0.0.1:6650", "the query wins"
    refusal = {"reason": "the broker do not have nope listener"}
    assert call(listened, "GET", f"{PATH}?listenerName=nope")[::2] == (400, refusal)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("pulsar://h:1", "NAME:SCHEME://HOST:PORT"),
        ("a:pulsar://h", "NAME:SCHEME://HOST:PORT"),
        ("a:pulsar://h:0", "NAME:SCHEME://HOST:PORT"),
        ("a:pulsar://h:65536", "NAME:SCHEME://HOST:PORT"),
        ("a:ftp://h:1", "NAME:SCHEME://HOST:PORT"),
        ("a:pulsar://h:1,", "which '' is not"),
        ("a:pulsar://h:1,a:pulsar://h:2", "a has two of pulsar"),
        ("a:pulsar://h:1,b:pulsar+ssl://h:1", "h:1 is in a and b"),
    ],
)
def test_listeners_that_cannot_be_read(text: str, reason: str) -> None:
    # covers SEC-47
    with pytest.raises(ValueError, match="want ") as refused:
        listeners(text)
    assert reason in str(refused.value)
