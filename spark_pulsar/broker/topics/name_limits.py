"""Limits of the names and properties that clients send.

A frame may have 5 MB, and all of it could be one name: it would be hashed a hundred times for one consumer (KS-6,
FO-4), kept while that is connected, written to disk, and sent with all statistics. Differs from Apache Pulsar, which
has no such limits; these are far beyond usual names. A longer one is refused for good, with the connection left open.
(The number of topics of a namespace is limited in `partition_creation`, TN-10; what names consist of, is in
`model.names`; which names of subscriptions are reserved, in `entities.subscription`, TN-12.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.model.errors import InvalidTopicName, NotAllowed, PulsarError
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand

if TYPE_CHECKING:
    from spark_pulsar.model.names import TopicName
    from spark_pulsar.wire.pulsar_api_pb2 import KeyValue

MAX_NAME_LENGTH: Final = 4_096
"""Characters of the name of a consumer, producer, subscription or namespace."""

MAX_TOPIC_NAME_LENGTH: Final = 16_384
"""Characters of a topic's name: `<topic>-<subscription>-DLQ` must fit."""

MAX_PROPERTIES_LENGTH: Final = 65_536
"""Characters of all keys and values that a producer, consumer, subscription or topic has."""

MAX_HASH_RANGES: Final = 65_536
"""Hash ranges of one consumer; there are no more sticky hashes (KS-7)."""

_TOPIC: Final = ("topic", "Topic name", MAX_TOPIC_NAME_LENGTH, InvalidTopicName)
_NAMESPACE: Final = ("namespace", "Namespace", MAX_NAME_LENGTH, InvalidTopicName)
_TEXTS: Final[Mapping[int, tuple[tuple[str, str, int, type[PulsarError]], ...]]] = {
    BaseCommand.LOOKUP: (_TOPIC, ("advertised_listener_name", "Listener name", MAX_NAME_LENGTH, NotAllowed)),
    BaseCommand.PARTITIONED_METADATA: (_TOPIC,),
    BaseCommand.GET_SCHEMA: (_TOPIC,),
    BaseCommand.GET_OR_CREATE_SCHEMA: (_TOPIC,),
    BaseCommand.GET_TOPICS_OF_NAMESPACE: (_NAMESPACE,),
    BaseCommand.WATCH_TOPIC_LIST: (_NAMESPACE,),
    BaseCommand.PRODUCER: (
        _TOPIC,
        ("producer_name", "Producer name", MAX_NAME_LENGTH, NotAllowed),
        ("initial_subscription_name", "Initial subscription name", MAX_NAME_LENGTH, NotAllowed),
    ),
    BaseCommand.SUBSCRIBE: (
        _TOPIC,
        ("subscription", "Subscription name", MAX_NAME_LENGTH, NotAllowed),
        ("consumer_name", "Consumer name", MAX_NAME_LENGTH, NotAllowed),
    ),
}
"""Names in each command: field, its name in errors, most characters, the error when it is longer."""


def check_command(kind: int, content: Any) -> None:
    """Refuses a command with too long a name, or too many properties."""
    if kind == BaseCommand.ACK:
        _check_length("Ack properties", sum(len(pair.key) for pair in content.properties))
    elif kind == BaseCommand.ADD_PARTITION_TO_TXN:
        _check_longest("Topic name", content.partitions, MAX_TOPIC_NAME_LENGTH)
    elif kind == BaseCommand.ADD_SUBSCRIPTION_TO_TXN:
        _check_longest("Topic name", (pair.topic for pair in content.subscription), MAX_TOPIC_NAME_LENGTH)
        _check_longest("Subscription name", (pair.subscription for pair in content.subscription), MAX_NAME_LENGTH)
    texts = _TEXTS.get(kind)
    if texts is None:
        return
    for field, what, limit, error in texts:
        length = len(getattr(content, field))
        if length > limit:
            raise error(too_long(what, length, limit))
    if kind == BaseCommand.PRODUCER:
        _check_pairs("Producer properties", content.metadata)
    elif kind == BaseCommand.SUBSCRIBE:
        _check_pairs("Consumer properties", content.metadata)
        _check_pairs("Subscription properties", content.subscription_properties)
        ranges = len(content.keySharedMeta.hashRanges)
        if ranges > MAX_HASH_RANGES:
            raise NotAllowed(f"Consumer names {ranges} hash ranges, more than {MAX_HASH_RANGES}: join adjoining ones")


def check_properties(what: str, properties: Mapping[str, str]) -> None:
    """Raises NotAllowed when properties are too long."""
    _check_length(what, sum(len(key) + len(value) for key, value in properties.items()))


def check_name(what: str, name: str) -> None:
    """Raises NotAllowed when a name is too long."""
    if len(name) > MAX_NAME_LENGTH:
        raise NotAllowed(too_long(what, len(name), MAX_NAME_LENGTH))


def check_topic(name: TopicName) -> None:
    """Raises InvalidTopicName when the name of a topic is too long for any client."""
    length = len(name.full)
    if length > MAX_TOPIC_NAME_LENGTH:
        raise InvalidTopicName(too_long("Topic name", length, MAX_TOPIC_NAME_LENGTH))


def too_long(what: str, length: int, limit: int) -> str:
    """Says that a name is too long. It is not quoted: the answer would be as long."""
    return f"{what} has {length} characters, more than {limit}: choose a shorter one"


def _check_longest(what: str, names: Iterable[str], limit: int) -> None:
    length = max(map(len, names), default=0)
    if length > limit:
        raise NotAllowed(too_long(what, length, limit))


def _check_pairs(what: str, pairs: Iterable[KeyValue]) -> None:
    _check_length(what, sum(len(pair.key) + len(pair.value) for pair in pairs))


def _check_length(what: str, length: int) -> None:
    if length > MAX_PROPERTIES_LENGTH:
        raise NotAllowed(f"{what} have {length} characters, more than {MAX_PROPERTIES_LENGTH}: leave some out")
