"""Service URLs, settings, errors: values only."""

from __future__ import annotations

import pickle

import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.connections.service_url import Address
from spark_pulsar.client.errors import (
    EndNotReached,
    InvalidServiceUrl,
    MessageTooLarge,
    NotSupportedByClient,
    OperationTimeout,
)
from spark_pulsar.client.reading.positions import after_entry
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.positions.ids import MessageId


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("pulsar://broker", [("broker", 6650)]),
        ("pulsar://broker:6651/", [("broker", 6651)]),
        ("pulsar://a:1,b,c:3", [("a", 1), ("b", 6650), ("c", 3)]),
        ("pulsar://[::1]:6650", [("::1", 6650)]),
        ("pulsar+ssl://a,b:6650", [("a", 6651), ("b", 6650)]),
        (" pulsar://127.0.0.1:6650 ", [("127.0.0.1", 6650)]),
    ],
)
def test_service_urls(url: str, addresses: list[tuple[str, int]]) -> None:
    assert list(ClientConfig(url).addresses) == [Address(*address) for address in addresses]


@pytest.mark.parametrize(
    "url",
    ["", "broker:6650", "kafka://b", "pulsar://", "pulsar://a:0", "pulsar://a:99999", "pulsar://a:b", "pulsar://a,,b"],
)
def test_what_is_no_service_url(url: str) -> None:
    with pytest.raises(InvalidServiceUrl, match="service URL"):
        ClientConfig(url)


@pytest.mark.parametrize("url", ["http://a:8080", "https://a"])
def test_lookup_over_http_is_not_supported(url: str) -> None:
    with pytest.raises(NotSupportedByClient, match="HTTP"):
        ClientConfig(url)


def test_time_outs_are_positive() -> None:
    with pytest.raises(ValueError, match="operation_timeout_ms"):
        ClientConfig("pulsar://a", operation_timeout_ms=0)


def test_a_client_pickles_as_its_configuration() -> None:
    client = PulsarClient(ClientConfig("pulsar://a", operation_timeout_ms=5))
    again = pickle.loads(pickle.dumps(client))
    assert again.config == client.config
    assert {client.config: 1}[again.config] == 1


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            OperationTimeout("looking up t", "pulsar://a", 30, "refused"),
            ["looking up t", "pulsar://a", "30 ms", "refused"],
        ),
        (MessageTooLarge(6, 5, "t"), ["t:", "6 bytes", "5"]),
        (EndNotReached("t", MessageId(1, 0), MessageId(1, 9), MessageId(1, 3), MessageId(1, 2)), ["1:9", "1:3", "1:2"]),
        (EndNotReached("t", MessageId(1, 0), MessageId(1, 9), MessageId(1, 0), None), ["empty"]),
    ],
)
def test_errors_say_what_and_where_also_after_pickling(error: PulsarError, words: list[str]) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error) == error.message
    for word in words:
        assert word in str(again)


def test_positions_after() -> None:
    assert after_entry(MessageId(3, 4, 1, 7)) == MessageId(3, 5, 1, -1)
