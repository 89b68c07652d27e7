"""How fast consumers are served and how often they may subscribe."""

import time
from typing import Any

import pulsar
import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import receive_texts, receive_up_to, send_all
from tests.eventually import eventually
from tests.raw import RawConnection

CLUSTER = "standalone"
RATE = {
    "dispatchThrottlingRateInMsg": 10,
    "dispatchThrottlingRateInByte": -1,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 1,
}
UNSET = {
    "dispatchRate": {**RATE, "dispatchThrottlingRateInMsg": 0, "dispatchThrottlingRateInByte": 0},
    "subscriptionDispatchRate": {**RATE, "dispatchThrottlingRateInMsg": 0, "dispatchThrottlingRateInByte": 0},
    "subscribeRate": {"subscribeThrottlingRatePerConsumer": 0, "ratePeriodInSecond": 30},
}


def dispatch(messages: int, size: int, period_s: int, *, is_relative: bool = False) -> dict[str, Any]:
    """A rate of dispatch with all its members."""
    return {
        "dispatchThrottlingRateInMsg": messages,
        "dispatchThrottlingRateInByte": size,
        "relativeToPublishRate": is_relative,
        "ratePeriodInSecond": period_s,
    }


def publishing(messages: int, size: int) -> dict[str, int]:
    """A rate of publishing."""
    return {"publishThrottlingRateInMsg": messages, "publishThrottlingRateInByte": size}


DISPATCH = [
    ({}, dispatch(0, 0, 0)),
    (dispatch(-1, -1, 1), dispatch(-1, -1, 1)),
    ({"dispatchThrottlingRateInByte": 1 << 33, "ratePeriodInSecond": -4}, dispatch(0, 1 << 33, -4)),
    ({"dispatchThrottlingRateInMsg": 7, "relativeToPublishRate": True}, dispatch(7, 0, 0, is_relative=True)),
    ({"dispatchThrottlingRateInMsg": -7, "relativeToPublishRate": None}, dispatch(-7, 0, 0)),
]
SUBSCRIBE = [
    ({}, {"subscribeThrottlingRatePerConsumer": -1, "ratePeriodInSecond": 30}),
    *(
        [{"subscribeThrottlingRatePerConsumer": times, "ratePeriodInSecond": period_s}] * 2
        for times, period_s in ((0, 30), (5, 0), (-7, -5))
    ),
]
PUBLISH = [
    ({}, publishing(-1, -1)),
    (publishing(0, 0), publishing(0, 0)),
    ({"publishThrottlingRateInMsg": 7}, publishing(7, -1)),
    (publishing(-7, -9), publishing(-7, -9)),
]
WRITTEN: dict[str, Any] = {
    "dispatchRate": DISPATCH,
    "subscriptionDispatchRate": DISPATCH,
    "subscribeRate": SUBSCRIBE,
    "publishRate": PUBLISH,
}
"""What is set, and how it is answered."""


def namespace_with(broker: Broker, **policies: Any) -> str:
    """A namespace of the test's own: `public/NAME`."""
    name = broker.namespace(policies)
    return name


def seconds_for_25(broker: Broker, topic: str, subscription: str, kind: pulsar.ConsumerType) -> float:
    """How long a new subscription of a topic takes to get 25 messages, each of which comes in its place."""
    client = broker.client()
    consumer = client.subscribe(topic, subscription, kind)
    expected = [str(number) for number in range(25)]
    began = time.monotonic()
    send_all(client.create_producer(topic), expected)
    found = receive_up_to(consumer, "24")
    passed_s = time.monotonic() - began
    # A client that lost its connection to a busy broker gets again what it has not acknowledged.
    assert list(dict.fromkeys(found)) == expected
    return passed_s


@pytest.mark.parametrize(
    ("kind", "member"),
    [(pulsar.ConsumerType.Exclusive, "topicDispatchRate"), (pulsar.ConsumerType.Shared, "subscriptionDispatchRate")],
)
def test_consumers_get_no_more_than_the_rate_allows(broker: Broker, member: str, kind: pulsar.ConsumerType) -> None:
    # covers SUB-7: ten at once and the other fifteen at ten a second, however slow everything else is
    topic = f"persistent://{namespace_with(broker, **{member: {CLUSTER: RATE}})}/t"
    assert seconds_for_25(broker, topic, "s", kind) > 0.9


def test_one_subscription_has_a_rate_of_its_own(broker: Broker) -> None:
    # covers SUB-7
    namespace = namespace_with(broker)
    topic = f"persistent://{namespace}/t"
    path = topic_path(topic)
    assert broker.rest("PUT", path)[0] == 204
    own, whole = f"{path}/slow/dispatchRate", f"{path}/subscriptionDispatchRate"
    assert broker.rest("GET", own) == (200, "")
    assert broker.rest("GET", f"{own}?applied=true") == (200, UNSET["subscriptionDispatchRate"])
    assert broker.rest("POST", own, RATE)[0] == 204
    eventually(lambda: broker.rest("GET", own) == (200, RATE))
    assert broker.rest("GET", f"{own}?applied=true") == (200, RATE)
    assert broker.rest("GET", f"{path}/fast/dispatchRate") == broker.rest("GET", whole) == (200, "")
    assert seconds_for_25(broker, topic, "slow", pulsar.ConsumerType.Shared) > 0.9
    of_all = {**RATE, "dispatchThrottlingRateInMsg": 77}
    assert broker.rest("POST", whole, of_all)[0] == 204
    eventually(lambda: broker.rest("GET", f"{path}/fast/dispatchRate?applied=true") == (200, of_all))
    assert broker.rest("GET", f"{own}?applied=true") == (200, RATE)
    assert broker.rest("DELETE", own)[0] == 204
    eventually(lambda: broker.rest("GET", own) == (200, ""))
    assert broker.rest("GET", f"{own}?applied=true") == (200, of_all)
    missing = broker.rest("POST", f"{topic_path(f'persistent://{namespace}/none')}/s/dispatchRate", RATE)
    assert missing == (404, {"reason": f"Topic persistent://{namespace}/none not found"})


@pytest.mark.parametrize("name", ["dispatchRate", "subscriptionDispatchRate", "subscribeRate", "publishRate"])
def test_rates_are_answered_as_they_were_written(broker: Broker, name: str) -> None:
    # covers SUB-6, SUB-7, PR-14, ADM-66, ADM-67
    namespace = namespace_with(broker)
    of_topic = topic_path(f"persistent://{namespace}/t")
    assert broker.rest("PUT", of_topic)[0] == 204
    in_namespace, in_topic = f"/admin/v2/namespaces/{namespace}/{name}", f"{of_topic}/{name}"
    nothing = (204 if name == "publishRate" else 200, "")
    unset = nothing if name == "publishRate" else (200, UNSET[name])
    assert broker.rest("GET", in_namespace) == (200, "")
    assert broker.rest("GET", in_topic) == nothing
    assert broker.rest("GET", f"{in_topic}?applied=true") == unset
    for path in (in_namespace, in_topic):
        for body, answer in WRITTEN[name]:
            assert broker.rest("POST", path, body)[0] == 204
            eventually(lambda path=path, answer=answer: broker.rest("GET", path) == (200, answer))
    answer = WRITTEN[name][-1][1]
    assert broker.rest("GET", f"{in_topic}?applied=true") == (200, answer)
    assert broker.rest("POST", in_topic)[0] == 204
    assert broker.rest("GET", in_topic) == (200, answer), "nothing is nothing new for a topic"
    assert broker.rest("DELETE", in_topic)[0] == 204
    eventually(lambda: broker.rest("GET", in_topic) == nothing)
    assert broker.rest("GET", f"{in_topic}?applied=true") == (nothing if name == "publishRate" else (200, answer))
    assert broker.rest("POST", in_namespace)[0] == 204
    eventually(lambda: broker.rest("GET", in_namespace) == (200, ""))  # and the end of that of a namespace
    eventually(lambda: broker.rest("GET", f"{in_topic}?applied=true") == unset)


@pytest.mark.parametrize("name", ["dispatchRate", "subscriptionDispatchRate"])
def test_a_namespace_shows_its_rates_by_cluster(broker: Broker, name: str) -> None:
    # covers SUB-7, ADM-66
    path = f"/admin/v2/namespaces/{namespace_with(broker)}"
    shown = {"dispatchRate": ("topicDispatchRate", "clusterDispatchRate")}.get(name, (name,))
    assert broker.rest("POST", f"{path}/{name}", RATE)[0] == 204
    assert [broker.rest("GET", path)[1][each] for each in shown] == [{CLUSTER: RATE}] * len(shown)
    assert broker.rest("DELETE", f"{path}/{name}")[0] == 204
    eventually(lambda: broker.rest("GET", path)[1][shown[0]] == {})


@pytest.mark.parametrize(("level", "member"), [("namespace", "subscriptionDispatchRate"), ("topic", "dispatchRate")])
def test_a_non_persistent_topic_is_not_limited(broker: Broker, client: pulsar.Client, level: str, member: str) -> None:
    # covers SUB-7, NP-1: what could not be sent at once would have to be dropped
    namespace = namespace_with(broker)
    topic = f"non-persistent://{namespace}/t"
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    path = f"{topic_path(topic) if level == 'topic' else f'/admin/v2/namespaces/{namespace}'}/{member}"
    rate = {**RATE, "dispatchThrottlingRateInMsg": 1, "ratePeriodInSecond": 6_000}
    eventually(lambda: broker.rest("POST", path, rate)[0] == 204, timeout_s=60)
    eventually(lambda: broker.rest("GET", path) == (200, rate), timeout_s=60)
    texts = [str(number) for number in range(20)]
    send_all(producer, texts)
    assert receive_texts(consumer, 20) == texts


def subscribed(raw: RawConnection, topic: str, name: str) -> tuple[str, str]:
    """The refusal of a consumer that comes and goes; nothing when it may."""
    answer = raw.request(
        "SUBSCRIBE", topic=topic, subscription="s", subType="Shared", consumer_id=1, consumer_name=name
    )
    raw.request("CLOSE_CONSUMER", consumer_id=1)
    return answer.fields.get("error", ""), answer.fields.get("message", "")


REFUSED = ("NotAllowedError", "Subscribe limited by subscribe rate limit per consumer.")


def test_who_subscribes_too_often_is_refused(broker: Broker, raw: RawConnection) -> None:
    # covers SUB-6
    rate = {"subscribeThrottlingRatePerConsumer": 2, "ratePeriodInSecond": 6_000}
    namespace = namespace_with(broker, clusterSubscribeRate={CLUSTER: rate})
    assert broker.rest("GET", f"/admin/v2/namespaces/{namespace}/subscribeRate") == (200, rate)
    topic = f"persistent://{namespace}/t"
    eventually(lambda: raw.request("LOOKUP", topic=topic)["response"] == "Connect", timeout_s=60)
    assert [subscribed(raw, topic, "a") for _ in range(3)] == [("", ""), ("", ""), REFUSED]
    assert subscribed(raw, topic, "b") == ("", "")


def test_who_is_refused_for_something_else_has_subscribed_as_often(broker: Broker, raw: RawConnection) -> None:
    # covers SUB-6
    rate = {"subscribeThrottlingRatePerConsumer": 1, "ratePeriodInSecond": 6_000}
    namespace = namespace_with(broker, clusterSubscribeRate={CLUSTER: rate})
    topic = f"persistent://{namespace}/t"
    eventually(lambda: raw.request("LOOKUP", topic=topic)["response"] == "Connect", timeout_s=60)
    request = {"topic": topic, "subscription": "alone", "subType": "Exclusive"}
    assert raw.request("SUBSCRIBE", consumer_id=2, consumer_name="b", **request).type == "SUCCESS"
    assert raw.request("SUBSCRIBE", consumer_id=1, consumer_name="a", **request)["error"] == "ConsumerBusy"
    assert subscribed(raw, topic, "a") == REFUSED
    other = broker.raw()
    assert subscribed(other, topic, "a") == REFUSED, "the same consumer on another connection"


@pytest.mark.parametrize("what", ["is loaded anew", "comes into being"])
def test_a_topic_refuses_nobody_when_it(broker: Broker, raw: RawConnection, what: str) -> None:
    # covers SUB-6
    rate = {"subscribeThrottlingRatePerConsumer": 1, "ratePeriodInSecond": 6_000}
    namespace = namespace_with(broker, clusterSubscribeRate={CLUSTER: rate})
    topic = f"persistent://{namespace}/t"
    eventually(lambda: raw.request("LOOKUP", topic=topic)["response"] == "Connect", timeout_s=60)
    assert [subscribed(raw, topic, "a") for _ in range(2)] == [("", ""), REFUSED]
    if what == "comes into being":
        assert broker.rest("DELETE", f"{topic_path(topic)}?force=true")[0] == 204
    else:
        assert broker.rest("PUT", f"{topic_path(topic)}/unload")[0] == 204
    eventually(lambda: raw.request("LOOKUP", topic=topic)["response"] == "Connect", timeout_s=60)
    eventually(lambda: subscribed(raw, topic, "a") == ("", ""))
    assert subscribed(raw, topic, "a") == REFUSED
