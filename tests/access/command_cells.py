"""Binary commands as each role of the access matrix sends them, on a topic with its rights and on one without."""

import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.raw import Frame, RawConnection

from . import roles
from .roles import NAMESPACE, OTHER_TOPIC, PARTS, ROLES, SUBSCRIPTION, TOPIC

TOPICS: Final = (f"persistent://{NAMESPACE}/{TOPIC}", f"persistent://{NAMESPACE}/{PARTS}-partition-0", OTHER_TOPIC)
_IN_TRANSACTIONS: Final = (TOPICS[0], OTHER_TOPIC)
_COORDINATOR: Final = ("coordinator",)
_NAMESPACES: Final = (NAMESPACE, roles.OTHER_NAMESPACE)
_SCHEMA: Final = {"name": "s", "type": "String", "schema_data": b""}
_PLACE: Final = {"ledgerId": 0, "entryId": 0}

LET_IN: Final = "let in"

Ask = Callable[[RawConnection, str], Frame]


def connection(service_url: str, role: str, **fields: Any) -> RawConnection:
    """A connection of a role after its handshake."""
    url = urllib.parse.urlsplit(service_url)
    raw = RawConnection(str(url.hostname), url.port or 0)
    raw.connect(auth_method_name="token", auth_data=roles.TOKENS[role].encode(), **fields)
    return raw


def _with_consumer(kind: str, **fields: Any) -> Ask:
    """A command of a consumer; the answer is that of SUBSCRIBE when there is none."""

    def ask(raw: RawConnection, topic: str) -> Frame:
        joined = raw.request("SUBSCRIBE", topic=topic, subscription="of-cells", subType="Shared", consumer_id=9)
        if joined.type != "SUCCESS":
            return joined
        answer = raw.request(kind, consumer_id=9, **fields)
        raw.request("CLOSE_CONSUMER", consumer_id=9)
        return answer

    return ask


def _producer(raw: RawConnection, topic: str) -> Frame:
    answer = raw.request("PRODUCER", topic=topic, producer_id=9)
    if answer.type == "PRODUCER_SUCCESS":
        raw.request("CLOSE_PRODUCER", producer_id=9)
    return answer


def _consumer(raw: RawConnection, topic: str) -> Frame:
    answer = raw.request("SUBSCRIBE", topic=topic, subscription=SUBSCRIPTION, subType="Shared", consumer_id=7)
    if answer.type == "SUCCESS":
        raw.request("CLOSE_CONSUMER", consumer_id=7)
    return answer


def _reader(raw: RawConnection, topic: str) -> Frame:
    answer = raw.request(
        "SUBSCRIBE", topic=topic, subscription="of-reader", subType="Exclusive", consumer_id=8, durable=False
    )
    if answer.type == "SUCCESS":
        raw.request("CLOSE_CONSUMER", consumer_id=8)
    return answer


def _of_transaction(kind: str, fields: Callable[[str], dict[str, Any]] = lambda _: {}) -> Ask:
    """A command of an own transaction, with fields made of the topic; the transaction is ended after."""

    def ask(raw: RawConnection, topic: str) -> Frame:
        raw.request("TC_CLIENT_CONNECT_REQUEST", tc_id=0)
        opened = raw.request("NEW_TXN", tc_id=0, txn_ttl_millis=60_000)
        if "error" in opened.fields:
            return opened
        ids = {name: opened.fields.get(name, 0) for name in ("txnid_most_bits", "txnid_least_bits")}
        answer = opened if kind == "NEW_TXN" else raw.request(kind, **ids, **fields(topic))
        if kind != "END_TXN":
            raw.request("END_TXN", **ids, txn_action="ABORT")
        return answer

    return ask


COMMANDS: Final[dict[str, tuple[Ask, tuple[str, ...]]]] = {
    "LOOKUP": (lambda raw, topic: raw.request("LOOKUP", topic=topic), TOPICS),
    "PARTITIONED_METADATA": (lambda raw, topic: raw.request("PARTITIONED_METADATA", topic=topic), TOPICS),
    "PRODUCER": (_producer, TOPICS),
    "SUBSCRIBE": (_consumer, TOPICS),
    "SUBSCRIBE reader": (_reader, TOPICS),
    "GET_SCHEMA": (lambda raw, topic: raw.request("GET_SCHEMA", topic=topic), TOPICS),
    "GET_OR_CREATE_SCHEMA": (
        lambda raw, topic: raw.request("GET_OR_CREATE_SCHEMA", topic=topic, schema=_SCHEMA),
        TOPICS,
    ),
    "CONSUMER_STATS": (_with_consumer("CONSUMER_STATS"), TOPICS),
    "GET_LAST_MESSAGE_ID": (_with_consumer("GET_LAST_MESSAGE_ID"), TOPICS),
    "SEEK": (_with_consumer("SEEK", message_publish_time=1), TOPICS),
    "UNSUBSCRIBE": (_with_consumer("UNSUBSCRIBE"), TOPICS),
    "GET_TOPICS_OF_NAMESPACE": (
        lambda raw, namespace: raw.request("GET_TOPICS_OF_NAMESPACE", namespace=namespace, mode="ALL"),
        _NAMESPACES,
    ),
    "WATCH_TOPIC_LIST": (
        lambda raw, namespace: raw.request(
            "WATCH_TOPIC_LIST", namespace=namespace, watcher_id=1, topics_pattern=".*", topics_hash="0"
        ),
        _NAMESPACES,
    ),
    "TC_CLIENT_CONNECT_REQUEST": (lambda raw, _: raw.request("TC_CLIENT_CONNECT_REQUEST", tc_id=0), _COORDINATOR),
    "NEW_TXN": (_of_transaction("NEW_TXN"), _COORDINATOR),
    "ADD_PARTITION_TO_TXN": (
        _of_transaction("ADD_PARTITION_TO_TXN", lambda topic: {"partitions": [topic]}),
        _IN_TRANSACTIONS,
    ),
    "ADD_SUBSCRIPTION_TO_TXN": (
        _of_transaction(
            "ADD_SUBSCRIPTION_TO_TXN", lambda topic: {"subscription": [{"topic": topic, "subscription": SUBSCRIPTION}]}
        ),
        _IN_TRANSACTIONS,
    ),
    "END_TXN": (_of_transaction("END_TXN", lambda _: {"txn_action": "COMMIT"}), _COORDINATOR),
}


def asked(service_url: str) -> Iterator[tuple[str, str, str, str]]:
    """Yields command, resource, role and the answer: its type, or the error."""
    for role in ROLES:
        if role == roles.WITHOUT_CREDENTIALS:
            continue
        raw = connection(service_url, role)
        try:
            for name, (ask, resources) in COMMANDS.items():
                for resource in resources:
                    yield name, resource, role, told(ask(raw, resource))
        finally:
            raw.close()


def told(answer: Frame) -> str:
    """The type of an answer, or its error: code and text without the parts that differ by run."""
    fields = answer.fields
    error, text = fields.get("error", fields.get("error_code")), fields.get("message", fields.get("error_message", ""))
    if error in ("AuthorizationError", "AuthenticationError"):
        return f"{error}: {text}"
    return LET_IN
