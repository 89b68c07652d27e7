"""Steps of transactions: clients begin, use and end them, some twice, some never, and some do not hear the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.transactions import coordinator
from spark_pulsar.model.positions.ids import Position, TransactionId
from spark_pulsar.wire.protocol import requests

from .consuming import Consuming
from .sharing import IN_ORDER

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core

    from .account import Place, Sent
    from .actors import Client, Consumer, Producer
    from .transaction_client import Known
    from .transactions import TxnId

_TIMEOUTS_MS: Final = (100, 2_000, 2_000, 60_000, 60_000, 600_000)
_DILIGENCE: Final = 0.85
"""Share of uses of a transaction before which a topic or subscription is added to it, as clients should."""
_NEVER_GIVEN: Final = (0, 1 << 40)


class Transacting(Consuming):
    """Steps of transactions, one method each."""

    def _entry(self, producer: Producer, transaction: TxnId | None = None) -> Sent:
        """An entry of a producer, of the steps of producers."""
        raise NotImplementedError

    def _bustle(self) -> None:
        """Everything moves once, of the steps of everybody."""
        raise NotImplementedError

    def _connect(self) -> None:
        """A client connects, likewise."""
        raise NotImplementedError

    # Who acts

    def _open_transaction(self) -> tuple[Client, Known] | None:
        """Picks a transaction that a connected client has begun."""
        found = [(client, known) for client in self._connected() for known in client.transactions.open.values()]
        return self.random.choice(found) if found else None

    def _some_transaction(self) -> tuple[Client, Known] | None:
        """Picks one that is open, or has one begun."""
        if not self._connected():
            self._connect()
            self._bustle()
        if self._open_transaction() is None:
            self._begin_transaction()
        for _ in range(3):
            found = self._open_transaction()
            if found is not None:
                return found
            self._bustle()
        return None

    def _consumer_with_inbox(self) -> tuple[Client, Consumer] | None:
        """Picks a consumer that has something, which may have to be brought first."""
        for _ in range(2):
            consumers = [pair for pair in self._consumers() if pair[1].topic in self.topics]
            found = [pair for pair in consumers if pair[1].inbox]
            if found:
                return self.random.choice(found)
            if len(consumers) < 3:
                self._open_consumer()
            else:
                self._grant()
            self._bustle()
            self._bustle()
        return None

    def _any_id(self, known: Known) -> TxnId:
        """The id of a transaction, now and then of one that is over, or was never begun."""
        if self.random.random() < 0.93:
            return known.txn_id
        over = [txn_id for client in self.world.clients for txn_id in client.transactions.over]
        return self.random.choice([*over, _NEVER_GIVEN])

    # Steps

    def _begin_transaction(self) -> None:
        clients = self._connected()
        if clients:
            timeout_ms = self.random.choice(_TIMEOUTS_MS)
            self.random.choice(clients).transactions.begin(timeout_ms, int(self.random.random() < 0.03))

    def _publish_in_transaction(self) -> None:
        """One or more entries on one topic, with plain ones of the same producer between them."""
        found = self._some_transaction()
        if found is None:
            return
        client, known = found
        everybody = [each for client in self.world.clients for each in client.producers]
        everybody = [each for each in everybody if each.topic.startswith("persistent:")]
        ready = [each for each in everybody if each.state == "open"]
        producer = self.random.choice(ready if ready and self.random.random() < 0.9 else everybody)
        if producer.state == "closed" and producer.client.connected and self.random.random() < 0.8:
            producer.client.open_producer(producer)
            self._bustle()
        if self.random.random() < _DILIGENCE:
            client.transactions.add_topic(known, producer.topic)
        sents = []
        for _ in range(self.random.randint(1, self.profile.run_length)):
            is_plain = self.random.random() < 0.2
            sents.append(self._entry(producer, None if is_plain else self._any_id(known)))
        producer.waiting.extend(sents)
        if producer.state == "open":
            producer.send(sents)

    def _ack_in_transaction(self) -> None:
        """Several entries, or everything up to one, or a part of a batch."""
        found, pair = self._some_transaction(), self._consumer_with_inbox()
        if found is None or pair is None:
            return
        (owner, known), (client, consumer) = found, pair
        if consumer.durable and self.random.random() < _DILIGENCE:
            owner.transactions.add_subscription(known, consumer.topic, consumer.subscription)
        places = list(consumer.inbox)
        batches = [place for place in places if consumer.inbox[place][0] > 1]
        kind = self.random.random()
        cumulative = kind < 0.25 and consumer.kind in IN_ORDER
        if batches and kind > 0.6:
            self._ack_of_batch(client, consumer, known, self.random.choice(batches))
            return
        if cumulative:
            chosen = [self.random.choice(places)]
            gone = [place for place in places if place <= chosen[0]]
        else:
            chosen = gone = self.random.sample(places, self.random.randint(1, min(len(places), 4)))
        for place in gone:
            del consumer.inbox[place]
        acked = self._known.setdefault((consumer.topic, consumer.subscription), [])
        acked.extend(chosen)
        if not cumulative and self.random.random() < 0.15:  # what is acked already, or what somebody else holds
            chosen = [*chosen, self.random.choice(acked)]
        command = requests.ack(
            consumer.consumer_id,
            [Position(*place) for place in chosen],
            cumulative=cumulative,
            request_id=self._receipt(client),
        )
        command.ack.txnid_most_bits, command.ack.txnid_least_bits = self._any_id(known)
        client.tell(command)

    def _ack_of_batch(self, client: Client, consumer: Consumer, known: Known, place: Place) -> None:
        count, bits = consumer.inbox[place]
        full = (1 << count) - 1
        cumulative = consumer.kind in IN_ORDER and self.random.random() < 0.4
        left = self.random.getrandbits(count)
        if cumulative:
            left = full & ~((1 << self.random.randint(1, count - 1)) - 1)
        elif self.random.random() < 0.8:  # only what came, which does not conflict
            left |= full & ~bits
        if not left or left == full:
            return
        consumer.inbox[place] = (count, left & bits)
        command = requests.ack(
            consumer.consumer_id,
            [Position(*place)],
            cumulative=cumulative,
            ack_set=left,
            request_id=self._receipt(client),
        )
        command.ack.message_id[0].batch_size = count
        command.ack.txnid_most_bits, command.ack.txnid_least_bits = known.txn_id
        client.tell(command)

    def _end_transaction(self) -> None:
        found = self._open_transaction()
        if found is not None:
            client, known = found
            client.transactions.end(known.txn_id, commit=self.random.random() < 0.65)

    def _end_unheard(self) -> None:
        """The connection is cut before the answer, and perhaps before the broker hears of it."""
        found = self._open_transaction()
        if found is None:
            return
        client, known = found
        link = client.link
        assert link is not None, "the client is connected"
        client.transactions.end(known.txn_id, commit=self.random.random() < 0.65)
        if self.random.random() < 0.8:
            self.world.carry_up(link)
        if self.random.random() < 0.5:
            self.world.write()
        self.world.cut(link)

    def _end_again(self) -> None:
        """Ends one that is over, or whose end was not heard, perhaps the other way."""
        clients = self._connected()
        if clients:
            client = self.random.choice(clients)
            ending = [each.txn_id for each in client.transactions.open.values() if each.is_ending]
            txn_ids = [*ending, *client.transactions.over, _NEVER_GIVEN]
            client.transactions.end(self.random.choice(txn_ids), commit=self.random.random() < 0.5)

    def _let_time_out(self) -> None:
        """Time passes until a transaction must end, or nearly so."""
        ends = sorted(each.ends_ms for each in self.world.judge.current.transactions.values())
        if ends:
            ms = self.random.choice((ends[0], self.random.choice(ends))) - self.world.now_ms
            self.world.advance(max(0, ms + self.random.choice((-1, 0, 0, 1))))

    def _forget_transaction(self) -> None:
        """A client is gone for good; another one takes its place."""
        clients = [client for client in self.world.clients if client.transactions.open]
        if clients:
            self.random.choice(clients).transactions.open.clear()

    def _abort_transaction(self) -> None:
        """The administrator aborts one."""
        txn_ids = list(self.world.judge.current.transactions)
        if not txn_ids:
            return
        txn_id = self.random.choice(txn_ids)

        def request(core: Core) -> None:
            transaction = core.state.transactions.get(TransactionId(*txn_id))
            if transaction is not None:
                self.world.judge.transactions.ends_asked[txn_id] = False
                coordinator.abort(core, transaction)

        self.administrator.ask("abort transaction", request, txn_id)

    def _transact(self) -> None:
        """A whole transaction, with everything moving in between."""
        if self.random.random() < 0.3:
            self._begin_transaction()
        for _ in range(self.random.randint(1, 4)):
            self.random.choice((self._publish_in_transaction, self._publish_in_transaction, self._ack_in_transaction))()
            if self.random.random() < 0.7:
                self._bustle()
        if self.random.random() < 0.85:
            self._end_transaction()
            self._bustle()
            self._bustle()

    # The end

    def _end_all_transactions(self) -> None:
        """Clients end some of the open transactions, and time the others."""
        for client in self._connected():
            for txn_id in list(client.transactions.open):
                if self.random.random() < 0.6:
                    client.transactions.end(txn_id, commit=self.random.random() < 0.65)
        self._bustle()
        self._bustle()
        self._let_all_time_out()

    def _let_all_time_out(self) -> None:
        """Time passes until nothing is open."""
        for _ in range(10):
            ends = [each.ends_ms for each in self.world.judge.current.transactions.values()]
            if not ends:
                return
            self.world.advance(max(0, max(ends) - self.world.now_ms))
            self._bustle()
        raise AssertionError("transactions stay open")
