"""Witness of transactions: hears what clients ask of them, knows what must come of it, and that each answer is true."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_pulsar.model.positions.ids import signed
from spark_pulsar.wire.protocol import ack_sets
from spark_pulsar.wire.pulsar_api_pb2 import COMMIT, BaseCommand, CommandAck, ServerError

from .comparing import Violation
from .sharing import DEALT_OUT
from .transaction_judge import AckInTransaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.broker.entities.core import Core

    from .account import Place, Sent, Subscription, Topic
    from .deliveries import Deliveries
    from .judge import Judge
    from .transaction_judge import Key
    from .transactions import TxnId

MAX_BITS = 65_536


@dataclass(slots=True)
class _Asked:
    """A command about a transaction, and the error that must be its answer: 0 for none."""

    txn_id: TxnId
    error: int
    names: tuple[Any, ...] = ()
    is_committed: bool = False


@dataclass(slots=True)
class _AskedAck:
    """ACK with a receipt."""

    error: int
    acks: list[AckInTransaction]
    created_in: int


class TransactionWitness:
    """Hears commands and answers of one core."""

    def __init__(self, judge: Judge, core: Core, deliveries: Deliveries, told: Counter[str]) -> None:
        self._judge = judge
        self._core = core
        self._deliveries = deliveries
        self._told = told
        self._asked: dict[tuple[int, int], _Asked] = {}
        """By session and request id."""
        self._acks: dict[tuple[int, int], _AskedAck] = {}
        judge.transactions.on_hidden, judge.transactions.on_freed = self._hidden, self._freed
        self.on_command: dict[int, Callable[[int, Any], None]] = {
            BaseCommand.NEW_TXN: self._new,
            BaseCommand.ADD_PARTITION_TO_TXN: self._add_partitions,
            BaseCommand.ADD_SUBSCRIPTION_TO_TXN: self._add_subscriptions,
            BaseCommand.END_TXN: self._end,
        }
        self.on_answer: dict[int, Callable[[int, Any], None]] = {
            BaseCommand.NEW_TXN_RESPONSE: self._opened,
            BaseCommand.ADD_PARTITION_TO_TXN_RESPONSE: self._added,
            BaseCommand.ADD_SUBSCRIPTION_TO_TXN_RESPONSE: self._added,
            BaseCommand.END_TXN_RESPONSE: self._ended,
        }

    # What clients ask for

    def _new(self, session_id: int, command: Any) -> None:
        transactions = self._judge.current.transactions
        limit = self._core.config.max_active_transactions
        error = 0
        if command.tc_id:
            error = ServerError.TransactionCoordinatorNotFound
        elif limit and len(transactions) >= limit:
            error = ServerError.NotAllowedError
        self._asked[session_id, command.request_id] = _Asked((command.tc_id, 0), error)

    def _add_partitions(self, session_id: int, command: Any) -> None:
        self._add(session_id, command, tuple(command.partitions))

    def _add_subscriptions(self, session_id: int, command: Any) -> None:
        self._add(session_id, command, tuple((each.topic, each.subscription) for each in command.subscription))

    def _add(self, session_id: int, command: Any, names: tuple[Any, ...]) -> None:
        asked = self._about(session_id, command)
        asked.names = names
        self._judge.transactions.names_asked.update((asked.txn_id, name) for name in names)

    def _end(self, session_id: int, command: Any) -> None:
        asked = self._about(session_id, command)
        asked.is_committed = command.txn_action == COMMIT
        if not asked.error:
            self._judge.transactions.ends_asked.setdefault(asked.txn_id, asked.is_committed)

    def _about(self, session_id: int, command: Any) -> _Asked:
        txn_id = (command.txnid_most_bits, command.txnid_least_bits)
        asked = _Asked(txn_id, 0 if self._judge.transactions.is_open(txn_id) else ServerError.TransactionNotFound)
        if txn_id[0]:
            asked.error = ServerError.TransactionCoordinatorNotFound
        self._asked[session_id, command.request_id] = asked
        return asked

    # What they are told

    def _answered(self, session_id: int, answer: Any) -> _Asked | None:
        """Finds what a good answer is for. Violation when it should be another one."""
        asked = self._asked.pop((session_id, answer.request_id), None)
        if asked is None:
            return None
        error = answer.error if answer.HasField("error") else 0
        if error != asked.error:
            raise Violation(f"the answer to {asked} is {error}: {answer.message} (TX-6)")
        return None if error else asked

    def _opened(self, session_id: int, answer: Any) -> None:
        if self._answered(session_id, answer) is None:
            return
        txn_id = (answer.txnid_most_bits, answer.txnid_least_bits)
        durable, given = self._judge.durable, self._judge.transactions.given
        if txn_id in given:
            raise Violation(f"{txn_id} is given to two clients (TX-3)")
        given.add(txn_id)
        if txn_id not in durable.transactions and txn_id not in durable.ended:
            raise Violation(f"{txn_id} is told and not on disk (TX-17)")

    def _added(self, session_id: int, answer: Any) -> None:
        asked = self._answered(session_id, answer)
        durable = self._judge.durable
        if asked is None or asked.txn_id in durable.ended:
            return
        found = durable.transactions.get(asked.txn_id)
        known: set[Any] = set() if found is None else {*found.partitions, *found.subscriptions}
        if found is None or not known.issuperset(asked.names):
            raise Violation(f"{asked.names} are added to {asked.txn_id}, and that is not on disk (TX-17)")

    def _ended(self, session_id: int, answer: Any) -> None:
        asked = self._answered(session_id, answer)
        if asked is None:
            return
        self._told["commits" if asked.is_committed else "aborts"] += 1
        if self._judge.durable.ended.get(asked.txn_id) is not asked.is_committed:
            raise Violation(f"the end of {asked.txn_id} is told, and it is not on disk (TX-6)")

    # Entries

    def sent(self, sent: Sent) -> None:
        """SEND."""
        transactions = self._judge.transactions
        if sent.transaction is not None and not transactions.is_open(sent.transaction):
            transactions.refused.add((sent.topic, sent.producer, sent.number))

    def send_refused(self, sent: Sent, error: Any) -> None:
        """SEND_ERROR."""
        if "is not open" not in error.message:
            return
        if sent.transaction is None or self._judge.transactions.is_open(sent.transaction):
            raise Violation(f"{sent!r} is refused, and {sent.transaction} is open (TX-8)")

    # Acks

    def ack(self, session_id: int, consumer: Consumer, command: CommandAck) -> None:
        """ACK in a transaction."""
        txn_id = (command.txnid_most_bits, command.txnid_least_bits)
        subscription = consumer.subscription
        key = (subscription.topic.full_name, subscription.name)
        topic = self._judge.current.topics.get(key[0])
        known = None if topic is None else topic.subscriptions.get(key[1])
        acks: list[AckInTransaction] = []
        if not self._judge.transactions.is_open(txn_id):
            error: int = ServerError.TransactionNotFound
        elif topic is None or known is None:
            error = ServerError.NotAllowedError
        else:
            wanted = AckInTransaction(txn_id, key)
            places = self._take_apart(command, topic, wanted)
            if command.ack_type == CommandAck.Individual:
                is_good = not self._conflicts(wanted, topic, known)
                acks = [wanted] if is_good and (wanted.whole or wanted.parts) else []
            elif subscription.type in DEALT_OUT:
                is_good = True
            else:
                is_good = self._cumulates(places[0], wanted, topic, known)
                acks = [wanted] if is_good and (wanted.through or wanted.parts) else []
            error = 0 if is_good else ServerError.TransactionConflict
        self._judge.transactions.acks.extend(acks)
        if command.HasField("request_id"):
            created_in = self._judge.created_in.get(key, 0)
            self._acks[session_id, command.request_id] = _AskedAck(error, acks, created_in)

    def _take_apart(self, command: CommandAck, topic: Topic, ack: AckInTransaction) -> list[Place]:
        """Takes the ids of an ACK that mean something; all of them."""
        places: list[Place] = []
        for message_id in command.message_id:
            place = (signed(message_id.ledgerId), signed(message_id.entryId))
            places.append(place)
            ledger = topic.ledgers.get(place[0])
            if ledger is None or place[1] >= ledger.entries:
                continue
            if not message_id.ack_set:
                ack.whole.add(place)
            elif self._core.config.batch_index_acks:
                ack.parts[place] = ack_sets.mask(message_id.ack_set)
        return places

    def _conflicts(self, ack: AckInTransaction, topic: Topic, known: Subscription) -> bool:
        """Tells whether something is acknowledged, or pending (TX-12, TX-14)."""
        for place in (*ack.whole, *ack.parts):
            if place in known.acked or place not in topic.log:  # what is given up was acknowledged
                return True
            if any(place in each.whole for each in known.pending.values()):
                return True
        if any(
            place in known.bits or any(place in each.parts for each in known.pending.values()) for place in ack.whole
        ):
            return True
        for place, bits in ack.parts.items():
            others = [each.parts[place] for each in known.pending.values() if place in each.parts]
            if place in known.bits:
                others.append(known.bits[place])
            full = topic.log[place].full
            if any(~bits & ~each & full for each in others):
                return True
        return False

    def _cumulates(self, place: Place, ack: AckInTransaction, topic: Topic, known: Subscription) -> bool:
        """Tells whether a cumulative ack is good, and makes of it what is recorded then (TX-13)."""
        if place in ack.whole:
            ack.whole, ack.through = set(), place
            is_new = any(each <= place and each not in known.acked for each in topic.log)
            return is_new and self._passes(place, ack.txn_id, known)
        if place not in ack.parts:
            return True  # nothing is to be done
        ledgers = [number for number, ledger in topic.ledgers.items() if number < place[0] and ledger.entries]
        before = (place[0], place[1] - 1)
        if place[1] == 0 and ledgers:
            before = (max(ledgers), topic.ledgers[max(ledgers)].entries - 1)
        own = known.pending.get(ack.txn_id)
        if own is None or own.through != before:
            ack.through = before
            if not self._passes(before, ack.txn_id, known):
                return False
        full = topic.log[place].full if place in topic.log else 0
        if place in known.bits:  # an earlier ack ended there
            ack.parts[place] |= full & ~known.bits[place]
        if own is not None and place in own.parts:
            ack.parts[place] |= full & ~own.parts[place]
            if ack.parts[place] == full:
                return False
        if place in topic.log and ack.parts[place] == full:
            ack.parts = {}
            return True
        return not self._conflicts(ack, topic, known)

    @staticmethod
    def _passes(place: Place, txn_id: TxnId, known: Subscription) -> bool:
        """Tells whether a cumulative ack is behind the transaction's last one, and no other transaction has one."""
        found = {other: each.through for other, each in known.pending.items() if each.through is not None}
        return not found or (txn_id in found and place > found[txn_id])

    def ack_response(self, session_id: int, response: Any) -> bool:
        """ACK_RESPONSE; tells whether it was for an ACK in a transaction."""
        asked = self._acks.pop((session_id, response.request_id), None)
        if asked is None:
            return False
        error = response.error if response.HasField("error") else 0
        if error != asked.error:
            raise Violation(f"the answer to {asked} is {error}: {response.message} (TX-12)")
        for ack in asked.acks:
            self._told["acks in transactions"] += 1
            topic = self._judge.durable.topics.get(ack.key[0])
            known = None if topic is None else topic.subscriptions.get(ack.key[1])
            is_same = self._judge.created_in.get(ack.key, 0) == asked.created_in
            if known is None or not is_same or ack.txn_id in self._judge.durable.ended:
                continue
            pending = known.pending.get(ack.txn_id)
            if pending is None or not (
                pending.whole >= ack.whole
                and pending.parts.keys() >= ack.parts.keys()
                and (ack.through is None or (pending.through or ()) >= ack.through)
            ):
                raise Violation(f"{ack} is confirmed and not on disk (TX-17)")
        return True

    def _hidden(self, key: Key, places: Iterable[Place]) -> None:
        holders = self._deliveries.of(*key).holders
        for place in places:
            holders.pop(place, None)

    def _freed(self, key: Key, places: Iterable[Place]) -> None:
        topic = self._core.topics.get(key[0])
        subscription = None if topic is None else topic.subscriptions.get(key[1])
        if subscription is None:
            return
        delivering = self._deliveries.of(*key)
        delivering.keys.given_back.update(places)
        if subscription.type in DEALT_OUT:
            for place in places:
                delivering.holders.pop(place, None)
        else:
            delivering.last = None
