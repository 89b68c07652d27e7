"""Rules of admission: consumers join by the types that the topic's policies enable (SUB-3), as often as its rate says
(SUB-6); where encryption is required only producers that encrypt may publish (PR-12)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_pulsar.wire.pulsar_api_pb2 import CommandSubscribe

from .comparing import Violation
from .rules import ENCRYPTION
from .throttling import RATES, Throttling

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterable

    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.producer import Producer
    from spark_pulsar.broker.turn import effects as fx
    from spark_pulsar.wire.pulsar_api_pb2 import CommandProducer

    from .account import Sent
    from .judge import Judge


class Admission:
    """Hears what clients ask for and its answers, on the connections of one core."""

    def __init__(self, judge: Judge, core: Core) -> None:
        self._judge = judge
        self._core = core
        self._asked: dict[tuple[int, int], bool] = {}
        """Session and request id → True when the type was enabled at the request."""
        self._producing: dict[tuple[int, int], CommandProducer] = {}
        """PRODUCER without an answer, by session and request id."""
        self._throttling = Throttling(judge, core)
        self._had_rates = False
        judge.checks_of_stored[1:] = [self._stored]

    @property
    def _has_rates(self) -> bool:
        """Tells whether there is a rate, or was one before its topic went."""
        self._had_rates = self._had_rates or self._judge.rules.is_any_set(RATES)
        return self._had_rates

    # Consumers

    def ask(self, session_id: int, command: CommandSubscribe) -> None:
        """SUBSCRIBE of a consumer that is not there."""
        name = CommandSubscribe.SubType.Name(command.subType)
        enabled = self._judge.rules.subscription_types(command.topic)
        self._asked[session_id, command.request_id] = name in enabled
        if self._has_rates:
            self._throttling.ask(session_id, command)

    def succeed(self, session_id: int, request_id: int) -> None:
        """SUCCESS."""
        self._throttling.succeed(session_id, request_id)
        if not self._asked.pop((session_id, request_id), True):
            raise Violation(f"request {request_id} of {session_id}: a consumer of a disabled type may join (SUB-3)")

    def refuse(self, session_id: int, request_id: int, message: str) -> None:
        """ERROR."""
        self._throttling.refuse(session_id, request_id, message)
        command = self._producing.pop((session_id, request_id), None)
        if "Encryption is required" in message and (
            command is None or command.encrypted or not self._judge.rules.may_require_encryption(command.topic)
        ):
            raise Violation(f"request {request_id} of {session_id}: {message}, but it is not, or is kept to (PR-12)")
        if self._asked.pop((session_id, request_id), False) and "doesn't support" in message:
            raise Violation(f"request {request_id} of {session_id}: {message}, but it does (SUB-3)")

    def sent(self, effect: fx.SendMessages, consumer: Consumer) -> None:
        """Entries go to a consumer of a topic that is stored."""
        if self._has_rates:
            self._throttling.sent(effect, consumer)

    # Producers

    def ask_producer(self, session_id: int, command: CommandProducer) -> None:
        """PRODUCER of one that is not there."""
        self._producing[session_id, command.request_id] = command

    def close_producer(self, waiting: Iterable[Sent]) -> None:
        """CLOSE_PRODUCER, of one whose entries wait for their receipts."""
        self._throttling.close_producer(waiting)

    def producer_ready(self, session_id: int, success: Any) -> None:
        """PRODUCER_SUCCESS."""
        command = self._producing.get((session_id, success.request_id))
        if command is not None and success.producer_ready:
            del self._producing[session_id, success.request_id]
            if not command.encrypted and self._judge.rules.requires_encryption(command.topic):
                raise Violation(f"{command.producer_name} of {command.topic} does not encrypt, and may produce (PR-12)")

    def refuses(self, producer: Producer, sent: Sent) -> bool:
        """Tells whether an entry that comes now is not encrypted where it must be."""
        rules = self._judge.rules
        is_required = rules.is_any_set(ENCRYPTION)
        if sent.is_encrypted or not (is_required or self._has_rates):
            return False
        if producer.is_encrypted:  # now, or when a rate lets it go and it is required by then
            rules.refused.add(sent.owner)
        return is_required and rules.requires_encryption(sent.topic, lag=False)

    def send_refused(self, sent: Sent, error: Any) -> None:
        """SEND_ERROR."""
        if "must be encrypted" in error.message and (
            sent.is_encrypted or not self._judge.rules.may_require_encryption(sent.topic)
        ):
            raise Violation(f"{sent!r} of {sent.topic}: {error.message}, but it is, or need not (PR-12)")

    def next_answered(self, waiting: deque[Sent] | None, sequence_id: int) -> Sent | None:
        """The entry that a receipt is for. What a rate held back of a producer that was closed meanwhile has none."""
        while waiting and waiting[0].sequence_id != sequence_id and self._has_rates:
            waiting.popleft()
        return waiting.popleft() if waiting else None

    def _stored(self, sent: Sent) -> None:
        if not sent.is_encrypted and self._judge.rules.requires_encryption(sent.topic):
            raise Violation(f"{sent!r} of {sent.topic} is stored and is not encrypted (PR-12)")
        if self._has_rates:
            self._throttling.stored(sent)

    def end_turn(self) -> None:
        """All orders of a turn were seen."""
        self._throttling.end_turn()
        if self._judge.rules.is_any_set(ENCRYPTION):
            for topic in self._core.topics.values():
                for producer in topic.producers.values():
                    if not producer.is_encrypted and self._judge.rules.requires_encryption(topic.full_name):
                        raise Violation(f"{producer.name} of {topic.full_name} does not encrypt, and is there (PR-12)")
