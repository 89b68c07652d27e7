"""Exclusive access: nothing is stored of producers from before, epochs rise and outlive the broker, and each producer
that waits gets its turn (PR-4 ... PR-8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_pulsar.wire.pulsar_api_pb2 import CommandProducer, ProducerAccessMode

from .comparing import Violation

if TYPE_CHECKING:
    from collections.abc import Collection

    from spark_pulsar.broker.entities.core import Core

    from .account import Sent
    from .judge import Judge


@dataclass(slots=True)
class _Asked:
    session_id: int
    request_id: int
    producer_id: int
    topic: str
    name: str
    mode: int
    epoch: int | None
    """Epoch that the client brought along."""


class Leaders:
    """Hears PRODUCER and its answers."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._epochs: dict[int, int] = {}
        """The highest that was told, by topic id."""
        self._asked: dict[tuple[int, int], _Asked] = {}
        self._waiting: list[_Asked] = []
        """Producers that were told to wait, in order."""
        self._opened: dict[tuple[str, str], int] = {}
        """Topic and name → number of answers until the producer was told that it is open."""
        self._alone_since: dict[str, int] = {}
        """Topic → number of answers until a producer was last told that it has exclusive access."""
        self._answers = 0

    def begin_life(self) -> None:
        """Begins with a start of the broker, without connections."""
        self._asked.clear()
        self._waiting.clear()
        self._opened.clear()
        self._alone_since.clear()

    def forget_epochs(self) -> None:
        """The newest part of what was on disk is lost."""
        self._epochs.clear()

    def ask(self, session_id: int, command: CommandProducer) -> None:
        """PRODUCER, of a producer that is not open on its connection."""
        epoch = command.topic_epoch if command.HasField("topic_epoch") else None
        self._asked[session_id, command.request_id] = _Asked(
            session_id,
            command.request_id,
            command.producer_id,
            command.topic,
            command.producer_name,
            command.producer_access_mode,
            epoch,
        )

    def leave(self, session_id: int, producer_id: int) -> None:
        """CLOSE_PRODUCER."""
        self._waiting = [
            each for each in self._waiting if (each.session_id, each.producer_id) != (session_id, producer_id)
        ]

    def refuse(self, session_id: int, request_id: int) -> None:
        """ERROR."""
        asked = self._asked.pop((session_id, request_id), None)
        if asked in self._waiting:
            self._waiting.remove(asked)

    def succeed(self, core: Core, session_id: int, success: Any) -> None:
        """PRODUCER_SUCCESS."""
        asked = self._asked.get((session_id, success.request_id))
        if asked is None:
            return
        if not success.producer_ready:
            self._waiting.append(asked)
            return
        del self._asked[session_id, success.request_id]
        if asked in self._waiting:
            self._check_turn(asked, core.sessions)
            self._waiting.remove(asked)
        session = core.sessions.get(session_id)
        producer = None if session is None else session.producers.get(asked.producer_id)
        if producer is None:
            return  # fenced or closed meanwhile
        self._answers += 1
        self._opened[asked.topic, asked.name] = self._answers
        if asked.mode != ProducerAccessMode.Shared:
            self._check_epoch(asked, producer.topic.state.topic_id, success.topic_epoch)
            self._alone_since[asked.topic] = self._answers

    def _check_turn(self, asked: _Asked, connected: Collection[int]) -> None:
        for other in self._waiting:
            if other is asked:
                return
            if other.topic == asked.topic and other.session_id in connected:
                raise Violation(f"{asked.topic}: {asked.name} gets its turn before {other.name} (PR-6)")

    def _check_epoch(self, asked: _Asked, topic_id: int, epoch: int) -> None:
        topic, highest = asked.topic, self._epochs.get(topic_id, -1)
        if asked.epoch is None and epoch <= highest:
            raise Violation(f"{topic}: {asked.name} gets epoch {epoch} after {highest} (PR-7)")
        if asked.epoch is not None and not highest <= asked.epoch <= epoch:
            raise Violation(f"{topic}: {asked.name} brings {asked.epoch} and gets {epoch} after {highest} (PR-7)")
        if self._judge.shadow.topics[topic_id].epoch < epoch:
            raise Violation(f"{topic}: {asked.name} is told epoch {epoch}, which is not on disk (PR-7)")
        self._epochs[topic_id] = epoch

    def check_stored(self, sent: Sent) -> None:
        """Checks a stored entry: its producer must not be one from before another got the topic alone (PR-8)."""
        alone = self._alone_since.get(sent.topic, 0)
        if self._opened.get((sent.topic, sent.producer), alone) < alone:
            raise Violation(f"{sent!r} is stored, and another producer has {sent.topic} alone (PR-8)")
