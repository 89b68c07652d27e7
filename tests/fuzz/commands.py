"""Commands as clients send them: every type there is, its fields filled by their names."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from spark_pulsar.wire import pulsar_api_pb2 as api
from spark_pulsar.wire.protocol.field_counts import is_repeated
from tests.fuzz import values
from tests.raw import Frame

_COMMAND: Final = api.BaseCommand.DESCRIPTOR
TYPES: Final = {each.name: each.number for each in _COMMAND.fields_by_name["type"].enum_type.values}
"""Types of commands with their numbers, those included that only a broker sends."""

_AVRO: Final = b'{"type":"record","name":"R","fields":[{"name":"f","type":"int"}]}'
_SCHEMAS: Final = (
    (4, _AVRO),
    (4, _AVRO.replace(b'"int"', b'["null","string"],"default":null')),
    (2, _AVRO),
    (4, b'{"type":"record","name":"R","fields":['),
    (4, b'["null",' * 400 + b'"int"' + b"]" * 400),
    (1, b""),
    (15, b"\0\0\0\x01a\0\0\0\x01b"),
    (15, b"\xff\xff\xff\xff"),
    (20, b"\x0a\x01"),
    (3, b""),
    (21, b""),
)
_PATTERNS: Final = (".*", "a|b", "persistent://public/default/.*", "(a+)+$", "[", "x" * 100, "\\p{L}+", "(?<=a)b", "")


class Memory:
    """Ids that a session has used or seen."""

    def __init__(self) -> None:
        self.request_ids = itertools.count(1)
        self.sequence_ids = itertools.count(0)
        self._topic = ""
        self.positions: list[dict[str, Any]] = []
        self.opened: dict[str, list[int]] = {}
        """Ids of producers, consumers and watchers that were opened, by the name of their field."""

    def topic(self, choices: Random) -> str:
        """Draws a topic: mostly the one that the session began with."""
        if not self._topic or choices.random() < 0.2:
            self._topic = self._topic or values.topic(choices)
            return values.topic(choices)
        return self._topic

    def see(self, frame: Frame) -> None:
        """Remembers the position that a frame tells."""
        found = frame.fields.get("message_id") or frame.fields.get("last_message_id")
        if isinstance(found, dict):
            self.positions.append(found)


def command(choices: Random, type_name: str, memory: Memory) -> api.BaseCommand:
    """Draws a command that a client might send."""
    number = TYPES[type_name]
    made = api.BaseCommand(type=number)  # type: ignore[arg-type]
    content = getattr(made, _COMMAND.fields_by_number[number].name)
    _fill(choices, content, memory, share=choices.choice((0.0, 0.0, 0.1, 0.5)))
    for name in _OPENING.get(type_name, ()):
        memory.opened.setdefault(name, []).append(getattr(content, name))
    return made


_OPENING: Final = {"PRODUCER": ("producer_id",), "SUBSCRIBE": ("consumer_id",), "WATCH_TOPIC_LIST": ("watcher_id",)}


def _fill(choices: Random, message: Message, memory: Memory, share: float = 0.5) -> None:
    """Fills a message: what it must have, what it mostly has, and a share of the rest."""
    message.SetInParent()
    for field in message.DESCRIPTOR.fields:
        is_likely = field.is_required or f"{message.DESCRIPTOR.name}.{field.name}" in _LIKELY
        if choices.random() >= (share if not is_likely else 1.0 if field.is_required else 0.9):
            continue
        times = choices.choice((1, 1, 2, 5)) if is_repeated(field) else 1
        for _ in range(times):
            _set(choices, message, field, memory)


_LIKELY: Final = frozenset(
    {
        "CommandConnect.feature_flags",
        "CommandConnect.protocol_version",
        "CommandAck.message_id",
        "CommandSeek.message_id",
        "CommandRedeliverUnacknowledgedMessages.message_ids",
        "CommandSubscribe.initialPosition",
    }
)
"""Optional fields that clients mostly send."""


def _set(choices: Random, message: Message, field: FieldDescriptor, memory: Memory) -> None:
    name = field.name
    if field.message_type is not None:
        inner: Any = getattr(message, name).add() if is_repeated(field) else getattr(message, name)
        if field.message_type.name == "MessageIdData":
            _position(choices, inner, memory)
        elif field.message_type.name == "Schema":
            inner.name, (inner.type, inner.schema_data) = "", choices.choice(_SCHEMAS)
        else:
            _fill(choices, inner, memory)
        return
    value = _value(choices, field, memory)
    if is_repeated(field):
        getattr(message, name).append(value)
    else:
        setattr(message, name, value)


def _position(choices: Random, position: Any, memory: Memory) -> None:
    if memory.positions and choices.random() < 0.7:
        known = memory.positions[-1 - choices.randrange(min(len(memory.positions), 5))]
        position.ledgerId, position.entryId = known.get("ledgerId", 0), known.get("entryId", 0)
    else:
        position.ledgerId, position.entryId = choices.randrange(60), choices.randrange(12)
    if choices.random() < 0.2:
        position.batch_index = choices.choice((-1, 0, 1, 9, 2**31 - 1))
    if choices.random() < 0.2:
        position.batch_size = choices.choice((0, 1, 10, 2**31 - 1))
    if choices.random() < 0.2:
        position.ack_set.extend(choices.choice(([0], [-1], [5], [0] * 40, [2**62], [])))
    if choices.random() < 0.1:
        position.partition = choices.choice((-1, 0, 1, 2**31 - 1))
    if choices.random() < 0.05:
        position.first_chunk_message_id.ledgerId = choices.randrange(60)
        position.first_chunk_message_id.entryId = choices.randrange(12)


def _value(choices: Random, field: FieldDescriptor, memory: Memory) -> Any:
    name = field.name
    if name in memory.opened and choices.random() < 0.9 and not field.containing_type.name.endswith(_OPENERS):
        return choices.choice(memory.opened[name][-3:])
    if name in _BY_NAME:
        return _BY_NAME[name](choices, memory)
    if field.enum_type is not None:
        return choices.choice(field.enum_type.values).number
    if field.type == FieldDescriptor.TYPE_BOOL:
        return choices.random() < 0.5
    if field.type == FieldDescriptor.TYPE_STRING:
        return choices.choice(("", "x", "key", "väl", "1")) if choices.random() < 0.8 else values.text(choices)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return values.octets(choices)[:100]
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return 1.0
    return choices.randrange(4)


_OPENERS: Final = ("Producer", "Subscribe", "WatchTopicList")

_BY_NAME: Final[dict[str, Any]] = {
    "topic": lambda choices, memory: memory.topic(choices),
    "subscription": lambda choices, memory: values.subscription(choices),
    "namespace": lambda choices, memory: values.namespace(choices),
    "topics_pattern": lambda choices, memory: choices.choice(_PATTERNS),
    "producer_name": lambda choices, memory: choices.choice(values.PRODUCERS),
    "request_id": lambda choices, memory: next(memory.request_ids),
    "sequence_id": lambda choices, memory: next(memory.sequence_ids),
    "highest_sequence_id": lambda choices, memory: choices.choice((0, 1, 5, 100)),
    "num_messages": lambda choices, memory: choices.choice((1, 1, 2, 10, -1, 0, 2**31 - 1)),
    "producer_id": lambda choices, memory: choices.randrange(4),
    "consumer_id": lambda choices, memory: choices.randrange(4),
    "watcher_id": lambda choices, memory: choices.randrange(3),
    "messagePermits": lambda choices, memory: choices.choice((1, 10, 1_000, 2**31 - 1, 0)),
    "consumer_epoch": lambda choices, memory: choices.randrange(3),
    "message_publish_time": lambda choices, memory: choices.choice((0, 1, 1_700_000_000_000, 4_000_000_000_000)),
    "start_message_rollback_duration_sec": lambda choices, memory: choices.choice((0, 1, 10**6, 2**63, 2**64 - 1)),
    "start": lambda choices, memory: choices.choice((0, 1, 32_768, -1)),
    "end": lambda choices, memory: choices.choice((0, 32_767, 65_535, 2**31 - 1)),
    "auth_method_name": lambda choices, memory: choices.choice(("none", "", "token")),
    "protocol_version": lambda choices, memory: choices.choice((21, 21, 19, 0, 5)),
}
