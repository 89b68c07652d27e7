"""Dynamic keys of the configuration: listed, set while the broker runs, kept over restarts, deleted."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.test_namespaces import fresh
from tests.eventually import eventually

PATH = "/admin/v2/brokers/configuration"
OF_BOTH = {
    "allowAutoSubscriptionCreation": "false",
    "allowAutoTopicCreation": "false",
    "brokerDeleteInactiveTopicsEnabled": "false",
    "dispatchThrottlingRateInMsg": "1000000",
    "maxTopicsPerNamespace": "10000",
    "subscribeThrottlingRatePerConsumer": "1000",
    "subscriptionTypesEnabled": "Exclusive,Shared",
}
"""Keys that both brokers have as dynamic ones, with other values than by default."""


def set_key(broker: Broker, name: str, text: str) -> None:
    assert broker.rest("POST", f"{PATH}/{name}/{quote(text, safe='')}")[0] == 200


@pytest.fixture
def keys_back(broker: Broker) -> Iterator[None]:
    """Deletes all dynamic keys when the test is over."""
    yield
    for name in broker.rest("GET", f"{PATH}/values")[1]:
        assert broker.rest("DELETE", f"{PATH}/{name}")[0] == 200


def test_names_and_values(broker: Broker, keys_back: None) -> None:
    # covers ADM-1, ADM-3
    status, names = broker.rest("GET", PATH)
    assert status == 200
    assert set(OF_BOTH) <= set(names)
    assert not {"clusterName", "brokerServicePort", "nope"} & set(names)
    assert broker.rest("GET", f"{PATH}/") == (200, names)
    for name, text in OF_BOTH.items():
        set_key(broker, name, text)
    assert broker.rest("GET", f"{PATH}/values") == (200, OF_BOTH)
    for name in OF_BOTH:
        assert broker.rest("DELETE", f"{PATH}/{name}") == (200, "")
        assert broker.rest("DELETE", f"{PATH}/{name}") == (200, ""), "there is none any more"
    assert broker.rest("GET", f"{PATH}/values") == (200, {})


@pytest.mark.parametrize("name", ["nope", "clusterName"])
def test_other_keys_cannot_be_set(broker: Broker, name: str) -> None:
    # covers ADM-3
    for verb, (status, answer) in (
        ("update", broker.rest("POST", f"{PATH}/{name}/5")),
        ("delete", broker.rest("DELETE", f"{PATH}/{name}")),
    ):
        assert status == 412
        assert answer["reason"].startswith(f"Can't {verb} non-dynamic configuration")
        if broker.kind == "ours":
            assert name in answer["reason"]
    for method, end in (("GET", ""), ("POST", ""), ("PUT", "/5")):
        assert broker.rest(method, f"{PATH}/maxTopicsPerNamespace{end}")[0] == 405


@pytest.mark.parametrize(
    ("name", "text"), [("dispatchThrottlingRateInMsg", "abc"), ("dispatchThrottlingRateInMsg", "-5 \r\nX: y")]
)
def test_a_value_that_cannot_be_read_is_stored_without_effect(
    broker: Broker, keys_back: None, name: str, text: str
) -> None:
    # covers ADM-3
    set_key(broker, name, text)
    assert broker.rest("GET", f"{PATH}/values") == (200, {name: text})
    broker.client().create_producer(broker.topic()).send(b"x")


def test_the_runtime_configuration_has_every_key(broker: Broker, keys_back: None) -> None:
    # covers ADM-4
    status, texts = broker.rest("GET", f"{PATH}/runtime")
    assert status == 200
    assert texts["clusterName"] == "standalone"
    assert texts["maxTopicsPerNamespace"] == "0"
    assert set(broker.rest("GET", PATH)[1]) <= set(texts)
    assert all(isinstance(text, str) for text in texts.values())
    set_key(broker, "maxTopicsPerNamespace", "10000")
    assert eventually(
        lambda: broker.rest("GET", f"{PATH}/runtime")[1]["maxTopicsPerNamespace"] == "10000", timeout_s=30
    )


def test_a_limit_holds_at_once_and_after_a_restart(own_broker: Broker) -> None:
    # covers ADM-1, ADM-2
    namespace = own_broker.namespace()

    def create() -> int:
        return own_broker.rest("PUT", topic_path(f"persistent://{namespace}/{fresh('t')}"))[0]

    assert create() == 204
    set_key(own_broker, "maxTopicsPerNamespace", "1")
    assert eventually(lambda: create() == 409, timeout_s=30)
    set_key(own_broker, "allowAutoTopicCreation", "false")
    assert own_broker.rest("DELETE", f"{PATH}/allowAutoTopicCreation")[0] == 200
    own_broker.kill()
    own_broker.restart()
    assert own_broker.rest("GET", f"{PATH}/values") == (200, {"maxTopicsPerNamespace": "1"})
    assert create() == 409
    assert own_broker.rest("DELETE", f"{PATH}/maxTopicsPerNamespace")[0] == 200
    assert eventually(lambda: create() == 204, timeout_s=30)
