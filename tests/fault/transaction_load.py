"""Transactions over several topics and subscriptions, for a broker that is killed.

Each worker is a client of its own. Besides transactions it sends and acknowledges without one, lets some time out, and
now and then vanishes.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import pulsar

from tests.brokers import Broker
from tests.conformance.transactions.transacting import Position, Transacting, Transaction, ids, refusal
from tests.eventually import eventually
from tests.fault.crash_load import value_of
from tests.fault.transaction_account import Account, AckKind, Intent, Message, Visible
from tests.raw import Frame, NoFrame, batch_payload

OPEN_AT_MOST: Final = 5
LEFT_AT_MOST: Final = 30
TTL_MS: Final = 10_000_000_000
SHORT_TTL_MS: Final = (50, 1_500)
BATCH: Final = 6
ENOUGH_INPUTS: Final = 120
PERMITS: Final = 1_000_000
_ENDS_AT_ONCE: Final = 10_000_000
"""Request ids of ENDs that are asked for without waiting for the answers."""


@dataclass(frozen=True, slots=True)
class Subscribed:
    """A subscription of one worker: `kind` is that of its acks in transactions."""

    name: str
    source: str
    kind: AckKind

    @property
    def type(self) -> str:
        """Its type as SUBSCRIBE names it."""
        return "Failover" if self.kind == "cumulative" else "Shared"


@dataclass(slots=True)
class Entry:
    """An entry of a source: its inputs in the order of the batch; a single has one."""

    numbers: list[int]
    left: int = 0
    """Bit mask of those that its consumer may still acknowledge."""

    @property
    def size(self) -> int:
        """Number of messages."""
        return len(self.numbers)


class Sources:
    """Two topics of numbered inputs, one of singles and one of batches, and who consumes them."""

    def __init__(self, broker: Broker, account: Account, workers: int) -> None:
        self.singles, self.batches = broker.topic("singles"), broker.topic("batches")
        self.entries: dict[str, dict[Position, Entry]] = {self.singles: {}, self.batches: {}}
        self.subscriptions = [
            [
                Subscribed(f"each-{number}", self.singles, "single"),
                Subscribed(f"indexes-{number}", self.batches, "index"),
                Subscribed(f"through-{number}", self.batches if number % 2 else self.singles, "cumulative"),
            ]
            for number in range(workers)
        ]
        self.unacked: dict[str, list[int]] = {each.name: [] for each in self.all()}
        """Subscription → inputs that it had before the clients of this life, in order."""
        self._account = account
        self._numbers = itertools.count()
        for subscribed in self.all():
            transacting = Transacting(broker)
            transacting.subscribe(subscribed.source, subscribed.type, subscribed.name, permits=0)
            transacting.raw.close()

    def all(self) -> list[Subscribed]:
        """The subscriptions of all workers."""
        return [each for of_one in self.subscriptions for each in of_one]

    def publish(self, broker: Broker, singles: int, batches: int) -> None:
        """Publishes so many entries to each, all with a receipt."""
        transacting = Transacting(broker)
        for producer_id, (topic, count, size) in enumerate(
            [(self.singles, singles, 1), (self.batches, batches, BATCH)]
        ):
            transacting.produce(topic, producer_id)
            for _ in range(count):
                numbers = list(itertools.islice(self._numbers, size))
                place, _ = send_values(transacting, [b"%d" % number for number in numbers], None, producer_id)
                self.entries[topic][place] = Entry(numbers)
                for subscribed in self.all():
                    if subscribed.source == topic:
                        self._account.inputs[subscribed.name].update(numbers)
                        self.unacked[subscribed.name] += numbers
        transacting.raw.close()

    def left(self, broker: Broker) -> dict[str, list[int]]:
        """Inputs that each subscription still has. Publishes one more entry to each topic, which comes last."""
        self.publish(broker, 1, 1)
        transacting = Transacting(broker)
        found: dict[str, list[int]] = {}
        for consumer_id, subscribed in enumerate(self.all()):
            entries = self.entries[subscribed.source]
            last = max(entries)
            how = {"name": subscribed.name, "consumer_id": consumer_id, "permits": PERMITS}
            transacting.subscribe(subscribed.source, subscribed.type, **how)  # type: ignore[arg-type]
            numbers = found.setdefault(subscribed.name, [])
            place: Position | None = None
            while place != last:
                frame = transacting.raw.expect("MESSAGE")
                place, entry = frame.position, entries[frame.position]
                left = bits_left(frame, entry.size)
                numbers += [number for index, number in enumerate(entry.numbers) if left >> index & 1]
        transacting.raw.expect_no_message(0.1)
        transacting.raw.close()
        self.unacked = {name: sorted(numbers) for name, numbers in found.items()}
        return found


def send_values(
    transacting: Transacting, values: list[bytes], transaction: Transaction | None, producer_id: int
) -> tuple[Position, Frame]:
    """Sends one message, or several as a batch; position and receipt, or SEND_ERROR and no position."""
    if len(values) == 1:
        answer = transacting.publish(values[0], transaction, producer_id)
    else:
        described = {"num_messages_in_batch": len(values)}
        answer = transacting.publish(
            batch_payload(values), transaction, producer_id, metadata=described, num_messages=len(values)
        )
    return (answer.position if answer.type == "SEND_RECEIPT" else (-1, -1)), answer


def message_id_of(place: Position, index: int) -> pulsar.MessageId:
    """The id that the official client tells for a message; `index`: in its batch, -1 for a single."""
    return pulsar.MessageId.deserialize(pulsar.MessageId(-1, *place, index).serialize())


def bits_left(frame: Frame, size: int) -> int:
    """Bit mask of the messages of a delivered entry that are not acknowledged."""
    words = frame.fields.get("ack_set", [])
    whole = (1 << size) - 1
    return sum((word & (2**64 - 1)) << (64 * at) for at, word in enumerate(words)) & whole if words else whole


@dataclass(slots=True)
class Consuming:
    """What one consumer has been sent.

    Attributes:
        ready: Entries that it may acknowledge, with the messages that are left, by position.
        order: Position and index of each message, in order (cumulative acks).
        acked_to: Number of those that are surely acknowledged; `held_to` by the pending ack of `holder`.
    """

    subscribed: Subscribed
    ready: dict[Position, int] = field(default_factory=dict)
    order: list[tuple[Position, int]] = field(default_factory=list)
    acked_to: int = 0
    held_to: int = 0
    holder: Intent | None = None

    def take(self, frame: Frame, entry: Entry) -> None:
        """Takes a message that was sent."""
        place, left = frame.position, bits_left(frame, entry.size)
        if self.subscribed.kind != "cumulative":
            self.ready[place] = left
        elif not self.order or place > self.order[-1][0]:
            self.order += [(place, index) for index in range(entry.size) if left >> index & 1]

    def again(self) -> None:
        """Begins as a new consumer."""
        self.ready.clear()
        self.order.clear()
        self.acked_to = self.held_to = 0


class Worker(threading.Thread):
    """Begins, uses and ends transactions on one connection until that breaks."""

    def __init__(
        self,
        broker: Broker,
        account: Account,
        sources: Sources,
        targets: list[Visible],
        number: int,
        seed: int,
        life: int,
        *,
        ends_short_ones: bool = True,
    ) -> None:
        """`ends_short_ones`: it may ask for the end of transactions that time out soon."""
        super().__init__(daemon=True)
        self.ended = 0
        self.failure: BaseException | None = None
        self.end_at_once = threading.Event()
        """Set, the worker asks for the end of all its open transactions."""
        self.is_asked = threading.Event()
        """It has."""
        self.is_cut = threading.Event()
        """To be set before the broker is killed."""
        self._broker = broker
        self._account = account
        self._sources = sources
        self._targets = targets
        self._name = f"w{number}-{life}"
        self._choices = random.Random(seed)
        self._ends_short_ones = ends_short_ones
        self._counts: dict[str, int] = defaultdict(int)
        self._intents: list[Intent] = []
        self._consuming = [Consuming(each) for each in sources.subscriptions[number]]
        self._connect()
        self.start()

    def _connect(self) -> None:
        self._transacting = Transacting(self._broker)
        for producer_id, target in enumerate(self._targets):
            self._transacting.produce(target.topic, producer_id)
        for consumer_id, consuming in enumerate(self._consuming):
            consuming.again()
            subscribed = consuming.subscribed
            how = {"name": subscribed.name, "consumer_id": consumer_id, "permits": PERMITS}
            self._transacting.subscribe(subscribed.source, subscribed.type, **how)  # type: ignore[arg-type]

    def run(self) -> None:
        try:
            while not self.end_at_once.is_set():
                self._step()
            self._end_all()
        except (NoFrame, OSError) as error:
            self.failure = None if self.is_cut.is_set() else error
            self._transacting.raw.close()
        except BaseException as failure:  # noqa: BLE001 - told by the main thread
            self.failure = failure

    def _step(self) -> None:
        open_ones = [each for each in self._intents if not (each.is_ended or each.is_left)]
        choice = self._choices.random()
        if not open_ones or (len(open_ones) < OPEN_AT_MOST and choice < 0.15):
            self._begin()
        elif choice < 0.25:
            self._send(None)
        elif choice < 0.30:
            self._ack_plain()
        elif choice < 0.31:
            self._vanish(open_ones)
        elif choice < 0.45:
            self._end(self._choices.choice(open_ones))
        elif choice < 0.72:
            self._send(self._choices.choice(open_ones))
        else:
            self._ack(self._choices.choice(open_ones))

    def _begin(self) -> None:
        ttl_ms = self._choices.randrange(*SHORT_TTL_MS) if self._choices.random() < 0.3 else TTL_MS
        begun_s = time.monotonic()
        intent = Intent(self._transacting.begin(ttl_ms=ttl_ms), ttl_ms, begun_s)
        if ttl_ms < TTL_MS:
            is_one_too_many = len(self._account.open_intents()) >= LEFT_AT_MOST
            intent.is_left = not self._ends_short_ones or (not is_one_too_many and self._choices.random() < 0.2)
        self._intents.append(intent)
        self._account.intents.append(intent)
        if intent.is_left:
            for _ in range(3):
                self._send(intent)
                self._ack(intent)

    def _send(self, intent: Intent | None) -> None:
        producer_id = self._choices.randrange(len(self._targets))
        visible = self._targets[producer_id]
        name = f"{self._name}-{producer_id}"
        count = self._choices.randrange(2, BATCH) if self._choices.random() < 0.3 else 1
        numbers = [self._counts[name] + index for index in range(count)]
        self._counts[name] += count
        asked: set[tuple[str, Message]] = {(visible.topic, (name, number)) for number in numbers}
        (self._account.plain.asked if intent is None else intent.maybe_messages).update(asked)
        values = [value_of(name, number) for number in numbers]
        transaction = None if intent is None else intent.transaction
        place, answer = send_values(self._transacting, values, transaction, producer_id)
        if answer.type == "SEND_ERROR":
            assert intent is not None, answer
            assert answer["error"] == "NotAllowedError", answer
            self._timed_out(intent, answer)
            intent.maybe_messages -= asked
            return
        for index, number in enumerate(numbers):
            message_id = message_id_of(place, index if count > 1 else -1)
            if intent is None:
                visible.receipts.setdefault(name, {})[number] = message_id
            else:
                intent.messages[visible.topic][name, number] = message_id
        if intent is not None:
            intent.maybe_messages -= asked

    def _timed_out(self, intent: Intent, answer: Frame) -> None:
        """Takes it that a transaction is over which nobody ended."""
        assert intent.may_have_timed_out(), (str(intent), answer)
        intent.end(is_committed=False)

    def _vanish(self, open_ones: list[Intent]) -> None:
        for intent in open_ones:
            intent.is_left = True
        self._transacting.raw.close()
        self._connect()

    # Acknowledgements

    def _gather(self) -> None:
        """Takes the messages that have arrived."""
        raw = self._transacting.raw
        raw.serve()
        while (frame := raw.next_frame(0)) is not None:
            if frame.type == "CLOSED":
                raise NoFrame("the broker is gone")
            if frame.type == "MESSAGE":
                consuming = self._consuming[frame.fields.get("consumer_id", 0)]
                consuming.take(frame, self._sources.entries[consuming.subscribed.source][frame.position])

    def _ack(self, intent: Intent) -> None:
        self._gather()
        consuming = self._choices.choice(self._consuming)
        if consuming.subscribed.kind == "cumulative":
            self._ack_through(consuming, intent)
        elif consuming.subscribed.kind == "index":
            self._ack_indexes(consuming, intent)
        else:
            self._ack_singles(consuming, intent)

    def _ask(
        self,
        consuming: Consuming,
        intent: Intent | None,
        message_ids: list[dict[str, Any]],
        numbers: list[int],
        kind: str,
    ) -> tuple[str | None, str]:
        """Acks, and notes that; the error that it is refused with, and its message."""
        subscribed, account = consuming.subscribed, self._account
        claims = {(subscribed.name, number) for number in numbers}
        (account.plain.maybe_acked if intent is None else intent.maybe_acks).update(claims)
        transaction = None if intent is None else intent.transaction
        answer = self._transacting.raw.request(
            "ACK",
            consumer_id=self._consuming.index(consuming),
            ack_type=kind,
            message_id=message_ids,
            **ids(transaction),
        )
        error, text = refusal(answer)
        if intent is None:
            assert error is None, answer
            account.plain.acked |= claims
            account.answered_acks["plain"] += 1
            return None, ""
        if error is None:
            intent.acks[subscribed.name].update(numbers)
            account.answered_acks[subscribed.kind] += 1
        elif error == "TransactionNotFound":
            self._timed_out(intent, answer)
        else:
            assert error == "TransactionConflict", answer
        intent.maybe_acks -= claims
        return error, text

    def _number(self, consuming: Consuming, place: Position, index: int) -> int:
        return self._sources.entries[consuming.subscribed.source][place].numbers[index]

    def _ack_singles(self, consuming: Consuming, intent: Intent | None) -> None:
        places = list(itertools.islice(consuming.ready, self._choices.randrange(1, 4)))
        if not places:
            return
        numbers = [self._number(consuming, place, 0) for place in places]
        message_ids = [{"ledgerId": place[0], "entryId": place[1]} for place in places]
        for place in places:
            del consuming.ready[place]
        refused = self._ask(consuming, intent, message_ids, numbers, "Individual")
        self._check_conflict(refused, consuming, intent, numbers)

    def _check_conflict(
        self, refused: tuple[str | None, str], consuming: Consuming, intent: Intent | None, numbers: list[int]
    ) -> None:
        error, text = refused
        if error == "TransactionConflict":
            assert intent is not None
            name = consuming.subscribed.name
            taken = any(self._account.is_taken(name, number, intent) for number in numbers)
            assert taken, f"{intent}: {name}: {numbers} is a conflict with nothing: {text}"

    def _ack_indexes(self, consuming: Consuming, intent: Intent) -> None:
        place = next(iter(consuming.ready), None)
        if place is None:
            return
        left = consuming.ready[place]
        chosen = self._choices.getrandbits(BATCH) & left or left
        indexes = [index for index in range(BATCH) if chosen >> index & 1]
        message_id: dict[str, Any] = {"ledgerId": place[0], "entryId": place[1], "batch_size": BATCH}
        message_id["ack_set"] = [((1 << BATCH) - 1) & ~chosen]
        if left == chosen:
            del consuming.ready[place]
        else:
            consuming.ready[place] = left & ~chosen
        numbers = [self._number(consuming, place, index) for index in indexes]
        refused = self._ask(consuming, intent, [message_id], numbers, "Individual")
        self._check_conflict(refused, consuming, intent, numbers)

    def _ack_through(self, consuming: Consuming, intent: Intent) -> None:
        holder = consuming.holder
        if holder is not None and holder.is_ended:
            consuming.acked_to = max(consuming.acked_to, consuming.held_to if holder.is_committed else 0)
            holder = consuming.holder = None
        from_ = max(consuming.acked_to, consuming.held_to if holder is intent else 0)
        at = from_ + self._choices.randrange(BATCH)
        if at >= len(consuming.order):
            return
        place, index = consuming.order[at]
        size = self._sources.entries[consuming.subscribed.source][place].size
        message_id: dict[str, Any] = {"ledgerId": place[0], "entryId": place[1]}
        if index < size - 1:
            message_id |= {"batch_size": size, "ack_set": [((1 << size) - 1) & ~((2 << index) - 1)]}
        last = self._number(consuming, place, index)
        numbers = [number for number in self._sources.unacked[consuming.subscribed.name] if number <= last]
        error, text = self._ask(consuming, intent, [message_id], numbers, "Cumulative")
        if error is None:
            consuming.holder, consuming.held_to = intent, at + 1
        elif error == "TransactionConflict":
            assert holder not in (None, intent), (
                f"{intent}: {consuming.subscribed.name}: a conflict with nothing: {text}; {holder}"
            )

    def _ack_plain(self) -> None:
        """Acks singles without a transaction; some that are pending in one, too."""
        self._gather()
        consuming = self._consuming[0]
        pending = [
            (each, number)
            for each in self._intents
            if not each.is_ended
            for number in each.acks.get(consuming.subscribed.name, ())
        ]
        if pending and self._choices.random() < 0.3:
            _, number = self._choices.choice(pending)
            entries = self._sources.entries[consuming.subscribed.source]
            place = next(place for place, entry in entries.items() if entry.numbers == [number])
            message_ids = [{"ledgerId": place[0], "entryId": place[1]}]
            self._ask(consuming, None, message_ids, [number], "Individual")
        else:
            self._ack_singles(consuming, None)

    # Ends

    def _end(self, intent: Intent) -> None:
        intent.asked = self._action()
        answer = self._transacting.end(intent.transaction, intent.asked)
        self._take_end(intent, answer)
        if self._choices.random() < 0.1:
            error, _ = refusal(self._transacting.end(intent.transaction, self._action()))
            assert error == "TransactionNotFound", f"{intent}: ended once more, that answers {error}"

    def _action(self) -> str:
        return "COMMIT" if self._choices.random() < 0.6 else "ABORT"

    def _take_end(self, intent: Intent, answer: Frame) -> None:
        error, _ = refusal(answer)
        if error is None:
            intent.end(is_committed=intent.asked == "COMMIT")
        else:
            assert error == "TransactionNotFound", answer
            self._timed_out(intent, answer)
        self.ended += 1

    def _end_all(self) -> None:
        """Asks for the end of all open transactions, and takes the answers that still come."""
        raw, asked = self._transacting.raw, [each for each in self._intents if not (each.is_ended or each.is_left)]
        for number, intent in enumerate(asked, _ENDS_AT_ONCE):
            intent.asked = self._action()
            raw.send("END_TXN", request_id=number, txn_action=intent.asked, **ids(intent.transaction))
        self.is_asked.set()
        for number, intent in enumerate(asked, _ENDS_AT_ONCE):
            self._take_end(intent, raw.answer(number))
        raw.expect_closed(60)


@dataclass(slots=True)
class Findings:
    """Numbers of transactions by what became of them, over all lives."""

    lost_answers: int = 0
    """Ends that were asked for and not answered before the kill."""
    lost_and_done: int = 0
    lost_and_open: int = 0
    lost_and_unknown: int = 0
    """It was done, or timed out before: what is visible tells."""
    survived: int = 0
    """Open before the kill, ended after it."""
    timed_out: int = 0


def find_out(broker: Broker, intents: list[Intent], choices: random.Random, findings: Findings) -> list[Intent]:
    """Ends the transactions that a killed broker left open, and so learns what became of the others, as far as it
    tells. Returns those that were open after the kill for sure."""
    transacting = Transacting(broker)
    still_open: list[Intent] = []
    for intent in intents:
        if intent.is_ended or (intent.is_left and intent.ttl_ms < TTL_MS and choices.random() < 0.5):
            continue
        again = intent.asked if intent.asked and choices.random() < 0.7 else choices.choice(("COMMIT", "ABORT"))
        error, _ = refusal(transacting.end(intent.transaction, again))
        assert error in (None, "TransactionNotFound"), error
        findings.lost_answers += intent.asked is not None
        if error is None:
            still_open.append(intent)
            findings.lost_and_open += intent.asked is not None
            findings.survived += intent.asked is None
            intent.end(is_committed=again == "COMMIT")
        elif intent.asked == "COMMIT" and intent.may_have_timed_out():
            findings.lost_and_unknown += 1
            intent.end(is_committed=None)
        else:
            assert intent.asked or intent.may_have_timed_out(), f"{intent}: nothing ended it"
            findings.lost_and_done += intent.asked is not None
            findings.timed_out += intent.asked is None
            intent.end(is_committed=intent.asked == "COMMIT")
        error, _ = refusal(transacting.end(intent.transaction, choices.choice(("COMMIT", "ABORT"))))
        assert error == "TransactionNotFound", f"{intent}: ended once more, that answers {error}"
    for intent in intents:
        if not intent.is_ended:
            eventually(partial(_is_gone, transacting, intent))
            assert intent.may_have_timed_out(), f"{intent}: aborted before its time was over"
            intent.end(is_committed=False)
            findings.timed_out += 1
    transacting.raw.close()
    return still_open


def _is_gone(transacting: Transacting, intent: Intent) -> bool:
    return transacting.metadata(intent.transaction)[0] == 404
