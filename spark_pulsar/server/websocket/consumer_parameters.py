"""Parameters of WebSockets that consume and that read (WS-3, WS-14)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spark_pulsar.wire import pulsar_api_pb2 as api

from .message_ids import BadMessageId, WebSocketMessageId
from .parameters import Parameters, invalid

QUEUE_SIZE: Final = 1000
"""Messages that a client may have without an acknowledgement; the most, and the default."""
_TYPES: Final = dict(api.CommandSubscribe.SubType.items())
_MODES: Final = {"Durable": 1, "NonDurable": 0}
_POSITIONS: Final = dict(api.CommandSubscribe.InitialPosition.items())
_FAILURE_ACTIONS: Final = ("FAIL", "DISCARD", "CONSUME")
_LEAST_ACK_TIMEOUT_MS: Final = 1000


def _queue_size(query: Parameters) -> int:
    return max(1, min(query.number("receiverQueueSize", QUEUE_SIZE, 0), QUEUE_SIZE))


def _failure_action(query: Parameters) -> str:
    value = query.raw("cryptoFailureAction")
    return value if value in _FAILURE_ACTIONS else "FAIL"  # as in Apache Pulsar, which logs it


@dataclass(frozen=True, slots=True)
class ConsumerParameters:
    """Parameters of a WebSocket that consumes."""

    subscription_type: api.CommandSubscribe.SubType.ValueType
    is_durable: bool
    initial_position: api.CommandSubscribe.InitialPosition.ValueType
    queue_size: int
    name: str | None
    priority_level: int
    ack_timeout_ms: int
    """Time after which a message without acknowledgement comes again; 0: never."""
    nack_delay_ms: int
    max_redeliver_count: int
    """Redeliveries after which a message becomes a dead letter; 0: never."""
    dead_letter_topic: str | None
    is_pull: bool
    crypto_failure_action: str

    @classmethod
    def of(cls, query: Parameters) -> ConsumerParameters:
        """Reads the parameters. Raises Refused."""
        ack_timeout_ms = query.number("ackTimeoutMillis", 0, is_long=True)
        if ack_timeout_ms != 0 and ack_timeout_ms < _LEAST_ACK_TIMEOUT_MS:
            raise invalid(f"Ack timeout should be greater than {_LEAST_ACK_TIMEOUT_MS} ms")
        max_redeliver_count = query.number("maxRedeliverCount", 0)
        has_letters = "maxRedeliverCount" in query or "deadLetterTopic" in query
        if has_letters and max_redeliver_count <= 0:
            raise invalid("MaxRedeliverCount must be > 0.")
        return cls(
            subscription_type=api.CommandSubscribe.SubType.Value(query.choice("subscriptionType", _TYPES, "Exclusive")),
            is_durable=query.choice("subscriptionMode", _MODES, "Durable") == "Durable",
            initial_position=api.CommandSubscribe.InitialPosition.Value(
                query.choice("subscriptionInitialPosition", _POSITIONS, "Latest")
            ),
            queue_size=_queue_size(query),
            name=query.text("consumerName"),
            priority_level=query.number("priorityLevel", 0, 0),
            ack_timeout_ms=ack_timeout_ms,
            nack_delay_ms=query.number("negativeAckRedeliveryDelay", 60_000, 0, is_long=True),
            max_redeliver_count=max_redeliver_count,
            dead_letter_topic=query.text("deadLetterTopic"),
            is_pull=query.flag("pullMode"),
            crypto_failure_action=_failure_action(query),
        )


@dataclass(frozen=True, slots=True)
class ReaderParameters:
    """Parameters of a WebSocket that reads."""

    queue_size: int
    name: str | None
    start: WebSocketMessageId | None
    """Message after which it begins; None: at an end."""
    is_earliest: bool
    crypto_failure_action: str

    @classmethod
    def of(cls, query: Parameters) -> ReaderParameters:
        """Reads the parameters. Raises Refused."""
        text = query.raw("messageId").replace(" ", "+")  # of base64, where a client has not escaped it
        start: WebSocketMessageId | None = None
        if text not in ("", "earliest", "latest"):
            try:
                start = WebSocketMessageId.parse(text)
            except BadMessageId as error:
                raise invalid(f"messageId: {error}") from None
        name = query.raw("readerName").strip() or None
        return cls(_queue_size(query), name, start, text == "earliest", _failure_action(query))
