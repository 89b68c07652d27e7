"""Single messages over REST: peek, by id, by time, the last one (ADM-69). The payload is the body, the
metadata are `X-Pulsar-…` headers."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from starlette.responses import JSONResponse, Response

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.calls import TOPIC_PATH, routes, shows_later, whole_number_in_path
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.admin.http.slices import run_in_slices
from spark_pulsar.broker.entities import registry
from spark_pulsar.broker.subscriptions import cursor_moves
from spark_pulsar.broker.subscriptions.consumer_stats import timestamp
from spark_pulsar.broker.topic_log import entry_lookup, time_search
from spark_pulsar.broker.transactions.entries import COMMIT_MARKER
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.limits import MAX_BROKER_DECOMPRESSED_SIZE_BYTES
from spark_pulsar.model.positions.ids import EARLIEST, Position
from spark_pulsar.wire.entries.compression import decompress
from spark_pulsar.wire.entries.entry_bytes import Entry, parse_entry, text_of
from spark_pulsar.wire.pulsar_api_pb2 import CompressionType

from .internal_stats import last_confirmed
from .non_persistent_refusals import check_stored
from .topic_lifecycle import check_namespace, existing, subscription_not_found

if TYPE_CHECKING:
    from spark_pulsar.admin.http.calls import Call, Handler, Routes
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic


class Stored(NamedTuple):
    """An entry, its position, and what transactions do to it."""

    position: Position
    entry: bytes
    is_uncommitted: bool
    """True while consumers wait for the end of a transaction, its own or one before it."""
    is_withheld: bool
    """True when no consumer gets it: its transaction was aborted, or it is the marker of an end."""


StoredAnswer = Callable[["Stored | PulsarError"], None]


def stored_topic(core: Core, call: Call, what: str, hint: str = "") -> Topic:
    """Returns the topic of a call; 405 for a partitioned parent and for a non-persistent topic."""
    name = call.topic
    check_stored(name, what)
    check_namespace(core, name)
    if registry.partition_count(core, name) is not None:
        raise Refused(405, f"{what} on a partitioned topic is not allowed{hint}")
    return existing(core, name)


def _fetch(core: Core, topic: Topic, position: Position, answer: StoredAnswer) -> None:
    """Answers with an entry, or with 404 when none can be read there."""

    def fetched(entry: bytes | None) -> None:
        if entry is None:
            answer(Refused(404, "Message not found"))
            return
        is_uncommitted = position > topic.max_read_position
        answer(Stored(position, entry, is_uncommitted, topic.ledger.withheld.contains(*position)))

    if topic.ledger.contains(position) and position <= topic.last_add_confirmed:
        entry_lookup.fetch(core, position, fetched)
    else:
        answer(Refused(404, "Message id not found"))


# ---- an entry as an answer ---------------------------------------------------------------------------------------


def message_answer(stored: Stored) -> Response:
    """Returns the payload of an entry, uncompressed but encrypted if it was; a batch as it is stored, one message after
    the other."""
    entry = parse_entry(stored.entry)
    metadata = entry.metadata
    payload = bytes(entry.payload)
    if metadata.compression and not entry.is_encrypted:
        size, limit_bytes = metadata.uncompressed_size, MAX_BROKER_DECOMPRESSED_SIZE_BYTES
        payload = decompress(metadata.compression, entry.payload, size, limit_bytes)
    response = Response(payload, media_type="application/octet-stream")
    headers = {
        "X-Pulsar-Message-ID": str(stored.position),
        **_headers(entry, len(stored.entry)),
        **_transaction_headers(entry, stored),
    }
    for name, value in headers.items():
        # Header values are bytes; text that is not Latin-1 goes as its UTF-8.
        response.raw_headers.append((name.encode(), _in_a_header(value).encode()))
    return response


def _in_a_header(text: str) -> str:
    """Returns a text without characters that a header may not hold: a key of several lines could forge headers."""
    return _CONTROLS.sub(" ", text).strip()


_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f]")


def _headers(entry: Entry, entry_bytes: int) -> dict[str, str]:
    headers = {"X-Pulsar-Is-Encrypted": _flag(entry.is_encrypted)}
    for field, value in entry.metadata.ListFields():
        if field.name in _FIELDS:
            name, text = _FIELDS[field.name]
            headers[f"X-Pulsar-{name}"] = text(value)
    is_batch = entry.metadata.HasField("num_messages_in_batch")
    if is_batch:
        headers["X-Pulsar-batch-size"] = str(entry_bytes - entry.metadata.ByteSize())
    if entry.metadata.properties or is_batch:
        pairs = {text_of(pair.key): text_of(pair.value) for pair in entry.metadata.properties}
        headers["X-Pulsar-PROPERTY"] = json.dumps(pairs)
    return headers


def _transaction_headers(entry: Entry, stored: Stored) -> dict[str, str]:
    metadata, headers = entry.metadata, {}
    if metadata.HasField("txnid_least_bits") and metadata.HasField("txnid_most_bits"):
        is_aborted = stored.is_withheld and metadata.marker_type != COMMIT_MARKER
        headers["X-Pulsar-txn-aborted"] = _flag(is_aborted)
    return {**headers, "X-Pulsar-txn-uncommitted": _flag(stored.is_uncommitted)}


def _flag(value: bool) -> str:
    return str(value).lower()


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _codec(value: CompressionType.ValueType) -> str:
    return CompressionType.Name(value)


_FIELDS: Final[Mapping[str, tuple[str, Callable[[Any], str]]]] = {
    "publish_time": ("publish-time", timestamp),
    "event_time": ("event-time", timestamp),
    "deliver_at_time": ("deliver-at-time", timestamp),
    "producer_name": ("producer-name", text_of),
    "sequence_id": ("sequence-id", str),
    "num_messages_in_batch": ("num-batch-message", str),
    "partition_key": ("partition-key", text_of),
    "partition_key_b64_encoded": ("partition-key-b64-encoded", _flag),
    "ordering_key": ("Base64-ordering-key", _base64),
    "schema_version": ("Base64-schema-version", _base64),
    "null_value": ("null-value", _flag),
    "compression": ("compression", _codec),
    "uncompressed_size": ("uncompressed-size", str),
    "replicated_from": ("replicated-from", text_of),
    "uuid": ("uuid", text_of),
    "num_chunks_from_msg": ("num-chunks-from-msg", str),
    "total_chunk_msg_size": ("total-chunk-msg-size", str),
    "chunk_id": ("chunk-id", str),
    "marker_type": ("marker-type", str),
    "txnid_least_bits": ("txnid-least-bits", str),
    "txnid_most_bits": ("txnid-most-bits", str),
}
"""Members of a message's metadata that are shown when set: the header's name after `X-Pulsar-`, and its form."""


# ---- paths -------------------------------------------------------------------------------------------------------


def _shows(begin: Callable[[Core, Call, StoredAnswer], None]) -> Handler:
    """Makes the handler that shows a stored entry."""

    async def handler(call: Call) -> Response:
        stored: Stored = await run_in_slices(call.gate, lambda core, answer: begin(core, call, answer))
        return message_answer(stored)

    return handler


def _peek(core: Core, call: Call, answer: StoredAnswer) -> None:
    """Answers the n-th unacked entry (CUR-15). Differs from Apache Pulsar, which creates a missing subscription."""
    number = whole_number_in_path(call.parts["number"])
    topic = stored_topic(core, call, "Peek messages")
    if number < 1:
        raise Refused(412, "The position of a message is a number from 1 on")
    name = call.parts["subscription"]
    subscription = topic.subscriptions.get(name)
    if subscription is None:
        raise subscription_not_found(name, topic.full_name)
    position = cursor_moves.nth_unacked(subscription, number)
    if position is None:
        raise Refused(404, "Message not found")
    _fetch(core, topic, position, answer)


def _by_id(core: Core, call: Call, answer: StoredAnswer) -> None:
    wanted = Position(whole_number_in_path(call.parts["ledger"]), whole_number_in_path(call.parts["entry"]))
    name = call.topic
    check_namespace(core, name)
    if registry.partition_count(core, name) is not None:
        raise Refused(405, "GetMessageById is not allowed on partitioned-topic")
    _fetch(core, stored_topic(core, call, "GetMessageById"), wanted, answer)


def _examine(core: Core, call: Call, answer: StoredAnswer) -> None:
    """Answers the n-th entry from the oldest or from the newest one."""
    from_oldest = call.query.get("initialPosition", "latest") == "earliest"
    number = max(1, whole_number_in_path(call.query.get("messagePosition", "1")))
    hint = ", please try examine message on specific topic partition"
    topic = stored_topic(core, call, "Examine messages", hint)
    total = topic.ledger.count_between(EARLIEST, topic.last_add_confirmed)
    if total == 0:
        raise Refused(412, "Could not examine messages due to the total message is zero")
    index = min(number, total) - 1
    _fetch(core, topic, topic.ledger.position_at(index if from_oldest else total - 1 - index), answer)


async def _id_at_time(call: Call) -> Response:
    """Answers the first entry published at or after a time, the end when there is none (CUR-12)."""
    time_ms = whole_number_in_path(call.parts["time"])

    def begin(core: Core, answer: Callable[[Position | PulsarError], None]) -> None:
        hint = ", please try do it on specific topic partition"
        time_search.first_at_or_after(
            core, stored_topic(core, call, "Get message ID by timestamp", hint), time_ms, answer
        )

    position: Position = await run_in_slices(call.gate, begin)
    return JSONResponse(id_json(position, call.topic.partition))


def _last_id(core: Core, call: Call, answer: Callable[[dict[str, Any] | PulsarError], None]) -> None:
    name = call.topic
    check_stored(name, "GetLastMessageId")
    topic = existing(core, name)
    last = last_confirmed(topic)

    def fetched(entry: bytes | None) -> None:
        size = 0 if entry is None else entry_lookup.declared_batch_size(entry)
        of_batch = {"batchSize": 0, "outstandingAcksInSameBatch": 0, "originalBatchSize": 0} if size else {}
        answer(id_json(last, name.partition, size - 1) | of_batch)

    if topic.ledger.contains(last):
        entry_lookup.fetch(core, last, fetched)
    else:
        answer(id_json(last if last.entry_id < 0 else EARLIEST, name.partition))  # EARLIEST: it is trimmed away


def id_json(position: Position, partition: int, batch_index: int = -1) -> dict[str, Any]:
    """Returns the JSON of a message id."""
    return {
        "ledgerId": position.ledger_id,
        "entryId": position.entry_id,
        "partitionIndex": partition,
        "batchIndex": batch_index,
        "batchSize": 0,
    }


ROUTES: Final[Routes] = routes(
    TOPIC_PATH,
    ("GET /subscription/{subscription}/position/{number}", access.topic("PEEK_MESSAGES"), _shows(_peek)),
    ("GET /ledger/{ledger}/entry/{entry}", access.topic("PEEK_MESSAGES"), _shows(_by_id)),
    ("GET /examinemessage", access.topic("PEEK_MESSAGES"), _shows(_examine)),
    ("GET /messageid/{time}", access.topic("PEEK_MESSAGES"), _id_at_time),
    ("GET /lastMessageId", access.topic("PEEK_MESSAGES"), shows_later(_last_id)),
)
