"""What transactions were promised by a broker that is killed, and the judgement on what is there after it: each of them
as a whole or not at all.

A message on a target is named by its producer and number, as in `crash_load.value_of`; an input by its number, also
each of a batch.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import pulsar

from tests.conformance.transactions.transacting import Transaction
from tests.fault.crash_load import READ_TIMEOUT_MS, Promises

Message = tuple[str, int]
"""Producer and number."""
AckKind = Literal["single", "cumulative", "index"]
CLOCK_SLACK_MS = 50


@dataclass(eq=False)
class Intent:
    """A transaction: what it got a receipt or an answer for, what it only asked for, and its outcome.

    Attributes:
        begun_s: Time before it was asked for, as `time.monotonic` counts.
        messages: Topic → messages with a receipt.
        acks: Subscription → inputs whose ack was answered.
        maybe_messages: Topic and message of each SEND without a receipt; `maybe_acks` likewise.
        asked: COMMIT or ABORT, once that was asked for.
        is_committed: Its outcome; None while it has none, or when only what is visible tells.
        is_left: Its client is gone, or never ends it.
    """

    transaction: Transaction
    ttl_ms: int
    begun_s: float
    messages: dict[str, dict[Message, pulsar.MessageId]] = field(default_factory=lambda: defaultdict(dict))
    acks: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    maybe_messages: set[tuple[str, Message]] = field(default_factory=set)
    maybe_acks: set[tuple[str, int]] = field(default_factory=set)
    asked: str | None = None
    is_ended: bool = False
    is_committed: bool | None = None
    is_left: bool = False

    def end(self, *, is_committed: bool | None) -> None:
        """Notes the outcome."""
        self.is_ended, self.is_committed = True, is_committed

    def may_have_timed_out(self) -> bool:
        """Tells whether its time is over by now."""
        return (time.monotonic() - self.begun_s) * 1_000 >= self.ttl_ms - CLOCK_SLACK_MS

    def promised(self) -> Iterator[tuple[str, Message]]:
        """Topic and message of each receipt."""
        return ((topic, message) for topic, messages in self.messages.items() for message in messages)

    def promised_acks(self) -> Iterator[tuple[str, int]]:
        """Subscription and input of each answered ack."""
        return ((subscription, number) for subscription, numbers in self.acks.items() for number in numbers)

    def __str__(self) -> str:
        outcome = {True: "committed", False: "aborted", None: "ended"}[self.is_committed]
        return f"transaction {self.transaction}, {outcome if self.is_ended else 'open'}"


@dataclass(eq=False)
class Plain:
    """What was asked for and answered without a transaction. Receipts of messages are in `Visible`."""

    asked: set[tuple[str, Message]] = field(default_factory=set)
    acked: set[tuple[str, int]] = field(default_factory=set)
    maybe_acked: set[tuple[str, int]] = field(default_factory=set)


class Account:
    """Transactions and inputs of all lives of a broker."""

    def __init__(self) -> None:
        self.intents: list[Intent] = []
        self.plain = Plain()
        self.inputs: dict[str, set[int]] = defaultdict(set)
        """Subscription → inputs that it was to get."""
        self.answered_acks: dict[str, int] = defaultdict(int)
        """Number of answered acks by kind."""

    def open_intents(self) -> list[Intent]:
        """Transactions without an outcome."""
        return [intent for intent in self.intents if not intent.is_ended]

    def is_taken(self, subscription: str, number: int, by_others_than: Intent) -> bool:
        """Tells whether another transaction, or a plain ack, may have this input: an ack of it is then a conflict."""
        claim = subscription, number
        return (
            claim in self.plain.acked
            or claim in self.plain.maybe_acked
            or any(
                each is not by_others_than
                and each.is_committed is not False
                and (number in each.acks.get(subscription, ()) or claim in each.maybe_acks)
                for each in self.intents
            )
        )

    def judge(self, visible: Mapping[str, Collection[Message]], left: Mapping[str, Collection[int]]) -> None:
        """Raises AssertionError, which tells what is there of a transaction and what is not, unless each is there as a
        whole or not at all. All of them are ended; `visible` is what readers get by topic, `left` what the
        subscriptions still have."""
        assert not self.open_intents(), "judged too early"
        self._decide(visible, left)
        broken = [*self._broken_intents(visible, left), *self._unexplained(visible), *self._badly_acked(left)]
        assert not broken, f"{len(broken)} broken promises: " + "; ".join(broken[:10])

    def _decide(self, visible: Mapping[str, Collection[Message]], left: Mapping[str, Collection[int]]) -> None:
        """Takes the outcome that shows for transactions of which nobody was told."""
        for intent in [each for each in self.intents if each.is_committed is None]:
            shows = any(message in visible[topic] for topic, message in [*intent.promised(), *intent.maybe_messages])
            explained = self._explained_acks()
            shows_in_acks = any(
                number not in left[subscription] and number not in explained[subscription]
                for subscription, number in intent.promised_acks()
            )
            intent.is_committed = shows or shows_in_acks

    def _explained_acks(self) -> dict[str, set[int]]:
        """Subscription → inputs that may be acknowledged."""
        found: dict[str, set[int]] = defaultdict(set)
        committed = [each for each in self.intents if each.is_committed]
        pairs: Iterable[tuple[str, int]] = (
            pair for each in committed for pair in (*each.promised_acks(), *each.maybe_acks)
        )
        for subscription, number in (*pairs, *self.plain.acked, *self.plain.maybe_acked):
            found[subscription].add(number)
        return found

    def _broken_intents(
        self, visible: Mapping[str, Collection[Message]], left: Mapping[str, Collection[int]]
    ) -> Iterator[str]:
        for intent in self.intents:
            if intent.is_committed:
                lost = [
                    f"{topic} lacks {message}" for topic, message in intent.promised() if message not in visible[topic]
                ]
                lost += [
                    f"{subscription} has {number} again"
                    for subscription, number in intent.promised_acks()
                    if number in left[subscription]
                ]
                if lost:
                    yield f"{intent}: {', '.join(lost[:5])}"
            else:
                pairs = [*intent.promised(), *intent.maybe_messages]
                shown = [f"{topic} shows {message}" for topic, message in pairs if message in visible[topic]]
                if shown:
                    yield f"{intent}: {', '.join(shown[:5])}"

    def _unexplained(self, visible: Mapping[str, Collection[Message]]) -> Iterator[str]:
        sent = self.plain.asked | {pair for intent in self.intents for pair in intent.promised()}
        sent |= {pair for intent in self.intents for pair in intent.maybe_messages}
        for topic, messages in visible.items():
            strange = [message for message in messages if (topic, message) not in sent]
            if strange:
                yield f"{topic} shows {strange[:5]}, which nobody sent"

    def _badly_acked(self, left: Mapping[str, Collection[int]]) -> Iterator[str]:
        explained = self._explained_acks()
        for subscription, inputs in self.inputs.items():
            lost = sorted(inputs - set(left[subscription]) - explained[subscription])
            if lost:
                yield f"{subscription} lost {lost[:5]}, which nobody acknowledged but aborted transactions"
            back = sorted(number for number in left[subscription] if (subscription, number) in self.plain.acked)
            if back:
                yield f"{subscription} has {back[:5]} again, which were acknowledged"
            strange = sorted(set(left[subscription]) - inputs)
            if strange or len(set(left[subscription])) < len(left[subscription]):
                yield f"{subscription} has some twice, or {strange[:5]}, which nobody sent"


class Visible(Promises):
    """What readers get of a topic with transactions, held against the receipts of plain messages and of committed
    transactions: each at its place, in order, and with its bytes."""

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.messages: set[Message] = set()

    def verify_stored(self, client: pulsar.Client, from_start: bool = False) -> None:
        if from_start:
            self.messages.clear()
        super().verify_stored(client, from_start)

    def _verify(self, message: pulsar.Message) -> None:
        super()._verify(message)
        self.messages.add(_message_of(message))

    def with_new(self, client: pulsar.Client) -> set[Message]:
        """All that is visible, also what was not verified yet."""
        reader = client.create_reader(self.topic, self._verified_to, receiver_queue_size=2_000)
        found = set(self.messages)
        while reader.has_message_available():
            found.add(_message_of(reader.read_next(timeout_millis=READ_TIMEOUT_MS)))
        reader.close()
        return found

    def promise(self, intents: Iterable[Intent]) -> None:
        """Takes the receipts of committed transactions."""
        for intent in intents:
            for (producer, number), message_id in intent.messages.get(self.topic, {}).items():
                self.receipts.setdefault(producer, {})[number] = message_id


def _message_of(message: pulsar.Message) -> Message:
    producer, number, _ = message.data().split(b"/", 2)
    return producer.decode(), int(number)
