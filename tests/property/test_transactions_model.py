"""Random histories of transactions against a plain model.

The disk loses what it had not written, and clients lose answers. After each crash every transaction is there as a whole
or not at all, acks included.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from spark_pulsar.broker.entities.topic import Topic
from spark_pulsar.broker.transactions import pending_acks
from spark_pulsar.broker.transactions.open_transactions import OpenTransactions
from spark_pulsar.ledger.state import transactions as transaction_records
from spark_pulsar.model.positions.ids import Position, TransactionId
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import payload_frame
from tests.unit.broker.transacting import ON, ack_in, begin, end, publish_in
from tests.unit.broker.world import QUIET, Client, World, entry, payloads, positions_of

SOURCE = "persistent://public/default/source"
TARGETS = ("persistent://public/default/one", "persistent://public/default/two")
INPUTS = 40
STEPS = 60
SHARED = 1


@dataclass
class Known:
    """What a transaction has on disk."""

    messages: dict[str, list[str]] = field(default_factory=lambda: {topic: [] for topic in TARGETS})
    acks: set[int] = field(default_factory=set)


class History:
    """One history of a seed."""

    def __init__(self, seed: int) -> None:
        self.choices = random.Random(seed)
        self.world = World(**ON, **QUIET)
        self.sent = 0
        self.open: dict[TransactionId, Known] = {}
        self.given: set[TransactionId] = set()
        self.visible: dict[str, list[str]] = {topic: [] for topic in TARGETS}
        self.plain: dict[str, list[str]] = {topic: [] for topic in TARGETS}
        self.acked: set[int] = set()
        self.held: set[int] = set()
        """Inputs that the consumer has and has not acked."""
        client = self.world.connect()
        client.open_producer(SOURCE)
        client.publish(1, *(entry(str(number)) for number in range(INPUTS)))
        client.take_all()
        for consumer_id, topic in enumerate(TARGETS, 8):
            client.open_consumer("keep", consumer_id, topic=topic)  # and never reads: the topic keeps its messages
        client.take_all()
        self.client = self.connected()

    def connected(self) -> Client:
        """A client with producers and the consumer, which gets all that is neither acked nor pending."""
        client = self.world.connect()
        for producer_id, topic in enumerate(TARGETS, 1):
            client.open_producer(topic, producer_id, name=None)
        client.open_consumer("in", 1, permits=10_000, topic=SOURCE, subscription_type=SHARED)
        self.held = set()
        self.take_inputs(client)
        pending = {number for known in self.open.values() for number in known.acks}
        assert self.held == set(range(INPUTS)) - self.acked - pending
        return client

    def take_inputs(self, client: Client) -> None:
        """Takes what was delivered."""
        for delivery in client.take_all():
            if hasattr(delivery, "starts"):
                self.held |= {position.entry_id for position in positions_of([delivery])}

    def crash(self) -> None:
        """The broker ends at once; what its disk has not written is lost, and so is what was on its way to clients."""
        self.world = self.world.restart(self.world.now_ms, **ON, **QUIET)
        self.client = self.connected()
        assert set(self.world.state.transactions) == set(self.open)

    def step(self) -> None:
        """One thing that happens."""
        self.take_inputs(self.client)
        choice = self.choices.random()
        if not self.open or (choice < 0.15 and len(self.open) < 4):
            txn_id = begin(self.client)
            assert txn_id not in self.given, "an id is given once"
            self.given.add(txn_id)
            self.open[txn_id] = Known()
        elif choice < 0.2:
            self.crash()
        elif choice < 0.3:
            self.send_plain()
        elif choice < 0.35:
            self.time_out()
        else:
            txn_id = self.choices.choice(list(self.open))
            loses = self.choices.random() < 0.2
            self.world.disk_is_slow = loses
            done = self.choices.choice((self.send, self.send, self.ack, self.end))(txn_id)
            if loses:
                if self.choices.random() < 0.5:
                    self.world.sync()
                    done()
                self.crash()
            else:
                done()

    def send(self, txn_id: TransactionId):  # type: ignore[no-untyped-def]
        """A message in a transaction; the result notes that it is on disk."""
        index = self.choices.randrange(len(TARGETS))
        self.sent += 1
        text = f"t{self.sent}"
        publish_in(self.client, txn_id, text, first=self.sent, producer_id=index + 1)
        return lambda: self.open[txn_id].messages[TARGETS[index]].append(text)

    def ack(self, txn_id: TransactionId):  # type: ignore[no-untyped-def]
        """An ack in a transaction, of an input that the consumer holds."""
        self.take_inputs(self.client)
        if not self.held:
            return lambda: None
        number = self.choices.choice(sorted(self.held))
        self.held.discard(number)
        if self.world.disk_is_slow:
            command = requests.ack(1, [Position(1, number)], request_id=self.client.request_id())
            command.ack.txnid_most_bits, command.ack.txnid_least_bits = txn_id
            self.client.send(command)
        else:
            assert not ack_in(self.client, txn_id, Position(1, number)).HasField("error")
        return lambda: self.open[txn_id].acks.add(number)

    def end(self, txn_id: TransactionId):  # type: ignore[no-untyped-def]
        """A commit or an abort."""
        commit = self.choices.random() < 0.6
        if self.world.disk_is_slow:
            self.client.send(requests.end_transaction(self.client.request_id(), txn_id, commit=commit))
        else:
            assert not end(self.client, txn_id, commit=commit).HasField("error")
        return lambda: self.ended(txn_id, commit=commit)

    def ended(self, txn_id: TransactionId, *, commit: bool) -> None:
        """Notes an end that is on disk."""
        known = self.open.pop(txn_id)
        if commit:
            self.acked |= known.acks
            for topic in TARGETS:
                self.visible[topic] += known.messages[topic]
        else:
            self.take_inputs(self.client)
            if not self.world.disk_is_slow:
                assert known.acks <= self.held, "an abort brings its inputs again"

    def send_plain(self) -> None:
        """A message outside of transactions."""
        index = self.choices.randrange(len(TARGETS))
        self.sent += 1
        self.client.send_bytes(payload_frame(requests.send(index + 1, self.sent), entry(f"p{self.sent}")))
        self.plain[TARGETS[index]].append(f"p{self.sent}")

    def time_out(self) -> None:
        """The time of all open transactions passes: they are aborted."""
        self.world.advance(60_001)
        self.take_inputs(self.client)
        for known in self.open.values():
            assert known.acks <= self.held
        self.open.clear()
        assert self.world.state.transactions == {}

    def judge(self) -> None:
        """A reader gets what was committed, and plain messages up to the first open transaction, in storage order."""
        for index, topic in enumerate(TARGETS):
            reader = self.world.connect()
            reader.open_consumer(f"reader-{index}", 1, permits=10_000, durable=False, topic=topic)
            found = [text for each in reader.take_all() if hasattr(each, "starts") for text in payloads(each)]
            reader.close()
            wanted = set(self.visible[topic]) | set(self.plain[topic])
            assert len(found) == len(set(found))
            assert set(found) <= wanted, "nothing of an open or aborted transaction"
            if not any(known.messages[topic] for known in self.open.values()):
                assert set(found) == wanted, "nothing is missing"
            assert [int(text[1:]) for text in found] == sorted(int(text[1:]) for text in found), "in storage order"


@pytest.mark.parametrize("seeds", [range(low, low + 15) for low in range(0, 60, 15)], ids=str)
def test_transactions_are_all_or_nothing(seeds: range) -> None:
    # covers TX-3, TX-6, TX-7, TX-9, TX-11, TX-12, TX-17
    for seed in seeds:
        history = History(seed)
        for step in range(STEPS):
            try:
                history.step()
                history.judge()
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, step {step}: {error}") from error


def _pass(*_args: object, **_more: object) -> None:
    """Does nothing."""


MUTATIONS: dict[str, tuple[object, str, object]] = {
    "open entries are sent": (Topic, "max_read_position", Topic.last_add_confirmed),
    "an abort withholds nothing": (transaction_records, "withhold", _pass),
    "a commit makes no acks": (transaction_records, "_acknowledge", _pass),
    "an abort frees no acks": (pending_acks, "free", _pass),
    "nothing times out": (OpenTransactions, "_end_due", _pass),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_the_model_notices_broken_rules(mutation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, replacement = MUTATIONS[mutation]
    monkeypatch.setattr(owner, name, replacement)
    with pytest.raises(AssertionError):
        test_transactions_are_all_or_nothing(range(40))
