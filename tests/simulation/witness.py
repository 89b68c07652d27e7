"""The witness: stands at the core's door, hears what clients ask for as the core hears it, and every order of the core.

What the core tells a client must be true at that moment: a receipt names an entry that is on disk, an ack's answer an
ack that is, a delivered entry is on disk, whole, not acked, and comes in its turn.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import Any

from spark_pulsar.broker.entities.consumer import Consumer
from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.entities.subscription import Subscription
from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.broker.turn import events as ev
from spark_pulsar.model.positions.ids import signed
from spark_pulsar.wire.protocol import ack_sets
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandAck, CommandProducer, CommandSubscribe

from .account import Place, Sent, Topic
from .admission import Admission
from .comparing import Violation
from .deliveries import Deliveries, Endings
from .judge import Judge
from .non_persistent import NonPersistentDeliveries
from .orders import Promise, Seek
from .sharing import DEALT_OUT, FAILOVER
from .transaction_witness import TransactionWitness

Range = tuple[int, int, int]


class Witness:
    """Hears events and effects of one core; a new one for every start."""

    def __init__(self, judge: Judge, core: Core, told: Counter[str]) -> None:
        self.judge = judge
        self.core = core
        self._told = told
        self._awaiting: dict[tuple[int, int], deque[Sent]] = {}
        """Entries received and not answered, by (session, producer id)."""
        self._plain: set[Sent] = set()
        """Entries received while their topic did not de-duplicate."""
        self._promises: dict[tuple[int, int], Promise] = {}
        self._requests: dict[tuple[int, int], tuple[str, str, str, int]] = {}
        """Meaning of SUCCESS by (session, request id): request, topic, subscription, submits till then."""
        self._sought: dict[tuple[int, int], Seek] = {}
        self.deliveries = Deliveries(judge, core)
        self.non_persistent = NonPersistentDeliveries(self.deliveries.takeovers)
        self.endings = Endings(judge, core)
        self._admission = Admission(judge, core)
        self._transactions = TransactionWitness(judge, core, self.deliveries, told)
        self._on_command = {
            BaseCommand.ACK: self._ack,
            BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES: self._redeliver,
            BaseCommand.SUBSCRIBE: self._subscribe,
            BaseCommand.SEEK: self._seek,
            BaseCommand.UNSUBSCRIBE: self._unsubscribe,
            BaseCommand.PRODUCER: self._producer,
            **judge.schemas.on_command,
            BaseCommand.CLOSE_PRODUCER: self._close_producer,
            **self._transactions.on_command,
        }
        self._on_answer = {
            BaseCommand.ACK_RESPONSE: self._ack_response,
            BaseCommand.SUCCESS: self._success,
            BaseCommand.SEND_ERROR: self._send_error,
            BaseCommand.PRODUCER_SUCCESS: self._producer_success,
            BaseCommand.ERROR: self._error,
            BaseCommand.ACTIVE_CONSUMER_CHANGE: self._active_consumer_change,
            BaseCommand.REACHED_END_OF_TOPIC: self._reached_end,
            **judge.schemas.on_answer,
            **self._transactions.on_answer,
        }

    # What clients ask for: called at each event's place in the order, before the core has it

    def hear(self, event: ev.Event) -> None:
        """An event is next."""
        self.deliveries.takeovers.note()
        self.judge.uses.note(self.core)
        self.judge.catch_up(self.core._records)
        if isinstance(event, ev.SendsReceived):
            if event.flaw is None:
                self._sends(event.session_id, [event.run.producer_id] * len(event.run), event.run)
        elif isinstance(event, ev.ColumnarSendsReceived):
            self._sends(event.session_id, event.columnar_sends.producer_ids, event.columnar_sends)
        elif isinstance(event, ev.AcksReceived):
            consumer = self._consumer(event.session_id, event.ack.consumer_id)
            if consumer is not None:
                ack = event.ack
                self._acked(consumer, ack.is_cumulative, ack.ranges, [], event.session_id, ack.request_id)
        elif isinstance(event, ev.CommandReceived):
            heard = self._on_command.get(event.command.type)
            if heard is not None and event.session_id in self.core.sessions:
                field_name = BaseCommand.DESCRIPTOR.fields_by_number[event.command.type].name
                heard(event.session_id, getattr(event.command, field_name))

    def _consumer(self, session_id: int, consumer_id: int) -> Consumer | None:
        session = self.core.sessions.get(session_id)
        return None if session is None else session.consumers.get(consumer_id)

    def _sends(self, session_id: int, producer_ids: Iterable[int], sends: Any) -> None:
        session = self.core.sessions.get(session_id)
        if session is None:
            return
        published: dict[Any, list[Sent]] = {}
        for producer_id, start, end in zip(producer_ids, sends.starts, sends.ends, strict=True):
            producer = session.producers.get(producer_id)
            if producer is None and producer_id not in session.dropped_producers:
                break  # the connection ends here, and what follows is not heard
            if producer is not None:
                sent = self.judge.sent[sends.buffer[start:end]]
                self._awaiting.setdefault((session_id, producer_id), deque()).append(sent)
                self._transactions.sent(sent)
                (self._plain.discard if self.judge.rules.deduplicates(sent.topic) else self._plain.add)(sent)
                if not self._admission.refuses(producer, sent) and producer.topic.non_persistent is not None:
                    published.setdefault(producer.topic, []).append(sent)
        for topic, sents in published.items():
            self.non_persistent.publish(topic, sents)

    def end_turn(self) -> None:
        """All orders of a turn were seen."""
        self._admission.end_turn()
        if not self.core.non_persistent.by_name:
            return
        self.non_persistent.end_turn()
        for (session_id, _), waiting in self._awaiting.items():
            if waiting and waiting[0].topic.startswith("non-") and session_id in self.core.sessions:
                raise Violation(f"{waiting[0]!r} of {waiting[0].topic} has no receipt (NP-2)")

    def _ack(self, session_id: int, command: CommandAck) -> None:
        consumer = self._consumer(session_id, command.consumer_id)
        if consumer is None:
            return
        if command.HasField("txnid_least_bits"):
            self._transactions.ack(session_id, consumer, command)
            return
        whole: list[Range] = []
        parts: list[tuple[Place, int]] = []
        for message_id in command.message_id:
            place = (signed(message_id.ledgerId), signed(message_id.entryId))
            if message_id.ack_set:
                parts.append((place, ack_sets.mask(message_id.ack_set)))
            else:
                whole.append((*place, place[1] + 1))
        request_id = command.request_id if command.HasField("request_id") else None
        self._acked(consumer, command.ack_type == CommandAck.Cumulative, whole, parts, session_id, request_id)

    def _acked(
        self,
        consumer: Consumer,
        is_cumulative: bool,
        ranges: list[Range],
        parts: list[tuple[Place, int]],
        session_id: int,
        request_id: int | None,
    ) -> None:
        subscription = consumer.subscription
        name, topic_name = subscription.name, subscription.topic.full_name
        topic = self.judge.current.topics.get(topic_name)
        if topic is None:
            return
        if name not in topic.subscriptions:
            self._reader_acked(consumer, is_cumulative, ranges, topic)
            return
        if not self.core.config.batch_index_acks:
            parts = [] if not is_cumulative else [(place, -1) for place, _ in parts]
        places = [(ledger, entry) for ledger, first, end in ranges for entry in range(first, end)]
        if is_cumulative:
            if subscription.type in DEALT_OUT:
                return
            last = places[0] if places else (parts[0][0][0], parts[0][0][1] - 1)
            places = [place for place in topic.log if place <= last] if last[0] in topic.ledgers else []
        post = self.judge.post
        places = [place for place in places if place in topic.log]
        parts = [(place, bits) for place, bits in parts if place in topic.log and bits != -1]
        if places:
            post("acked", topic_name, name, places)
        for place, bits in parts:
            post("acked_in_part", topic_name, name, place, bits)
        holders = self.deliveries.of(topic_name, name).holders
        acked = topic.subscriptions[name].acked
        for place in (*places, *(place for place, _ in parts)):
            if place in acked:
                holders.pop(place, None)
        if request_id is not None:
            created_in = self.judge.created_in.get((topic_name, name), 0)
            self._promises[session_id, request_id] = Promise(topic_name, name, places, parts, created_in)

    def _reader_acked(self, consumer: Consumer, is_cumulative: bool, ranges: list[Range], topic: Topic) -> None:
        acked = self.deliveries.of(consumer.subscription.topic.full_name, consumer.subscription.name).acked
        for ledger_id, first, end in ranges:
            if is_cumulative:
                acked.update(place for place in topic.log if place <= (ledger_id, first))
            else:
                acked.update((ledger_id, entry_id) for entry_id in range(first, end))

    def _redeliver(self, session_id: int, command: Any) -> None:
        consumer = self._consumer(session_id, command.consumer_id)
        if consumer is None:
            return
        subscription = consumer.subscription
        name, topic_name = subscription.name, subscription.topic.full_name
        delivering = self.deliveries.of(topic_name, name)
        if subscription.type == FAILOVER and not self.deliveries.takeovers.is_active(consumer):
            return
        delivering.last = None
        wanted = {(signed(each.ledgerId), signed(each.entryId)) for each in command.message_ids}
        back = [
            place
            for place, holder in delivering.holders.items()
            if holder is consumer and (not wanted or place in wanted)
        ]
        for place in back:
            del delivering.holders[place]
        delivering.keys.given_back.update(back)
        if back and subscription.is_durable:
            self.judge.post("redelivered", topic_name, name, back)

    def _subscribe(self, session_id: int, command: CommandSubscribe) -> None:
        if command.consumer_id in self.core.sessions[session_id].consumers:
            return
        self._admission.ask(session_id, command)
        key, topic = (command.topic, command.subscription), self.core.topics.get(command.topic)
        is_there = topic is not None and command.subscription in topic.subscriptions
        if command.durable and not is_there:
            latest = command.initialPosition == CommandSubscribe.Latest
            self.judge.beginnings.ask(*key, self.judge.rules.turns, latest=latest)
        if command.durable or is_there:
            self._requests[session_id, command.request_id] = ("subscribe", *key, self.judge.submitted)

    def _producer(self, session_id: int, command: CommandProducer) -> None:
        if command.producer_id not in self.core.sessions[session_id].producers:
            self.judge.leaders.ask(session_id, command)
            self.judge.schemas.ask_producer(session_id, command)
            self._admission.ask_producer(session_id, command)

    def _close_producer(self, session_id: int, command: Any) -> None:
        self.judge.leaders.leave(session_id, command.producer_id)
        self._admission.close_producer(self._awaiting.get((session_id, command.producer_id), ()))

    def _seek(self, session_id: int, command: Any) -> None:
        consumer = self._consumer(session_id, command.consumer_id)
        if consumer is None or consumer.subscription.fenced:
            return
        place = None
        if command.HasField("message_id"):
            place = (signed(command.message_id.ledgerId), signed(command.message_id.entryId))
        through = tuple(consumer.subscription.topic.last_add_confirmed)
        seek = Seek(place, command.message_publish_time, through)  # type: ignore[arg-type]
        self.moves(consumer.subscription, seek)
        if consumer.subscription.is_durable:
            self._sought[session_id, command.request_id] = seek

    # What administrators ask for

    def moves(self, subscription: Subscription, seek: Seek) -> None:
        """A subscription is to move: what was promised and delivered means nothing any more."""
        key = (subscription.topic.full_name, subscription.name)
        self._forget(*key)
        if subscription.is_durable:
            self.judge.seeks.setdefault(key, deque()).append(seek)
        for expiring in self.judge.expiring:
            if (expiring.topic, expiring.name) == key:
                expiring.is_exact = False

    def _forget(self, topic_name: str, name: str) -> None:
        key = (topic_name, name)
        for request in [each for each, promise in self._promises.items() if (promise.topic, promise.name) == key]:
            del self._promises[request]
        self.deliveries.forget(topic_name, name)

    def consumed(self, topic_name: str, name: str, places: Iterable[Place]) -> None:
        """Notes acks of entries, whichever consumer holds them."""
        holders = self.deliveries.of(topic_name, name).holders
        for place in places:
            holders.pop(place, None)

    def deleted(self, topic_name: str) -> None:
        """A topic is gone with its subscriptions."""
        for name in self.deliveries.forget_topic(topic_name):
            self._forget(topic_name, name)

    def _unsubscribe(self, session_id: int, command: Any) -> None:
        consumer = self._consumer(session_id, command.consumer_id)
        if consumer is None:
            return
        key = (consumer.subscription.topic.full_name, consumer.subscription.name)
        self.judge.unsubscribing.add(key)
        self._requests[session_id, command.request_id] = ("unsubscribe", *key, self.judge.submitted)

    def note_read_failed(self) -> None:
        """Searches by time may miss from now on."""
        for seeks in self.judge.seeks.values():
            for seek in seeks:
                seek.is_exact = False
        for expiring in self.judge.expiring:
            expiring.is_exact = False

    # What the core orders

    def see(self, effect: fx.Effect) -> None:
        """The core orders something for a client."""
        if isinstance(effect, fx.SendMessages):
            consumer = self._consumer(effect.session_id, effect.consumer_id)
            consumer = consumer or self.non_persistent.receiver(effect.session_id, effect.consumer_id)
            if consumer is None:
                raise Violation(f"MESSAGE to consumer {effect.consumer_id} of {effect.session_id}, which is gone")
            self._told["deliveries"] += len(effect.starts)
            if consumer.subscription.topic.non_persistent is None:
                self.deliveries.see(effect, consumer)
                self._admission.sent(effect, consumer)
            else:
                self.non_persistent.see(effect, consumer)
        elif isinstance(effect, fx.SendReceipts):
            for index, sequence_id in enumerate(effect.sequence_ids):
                entry_id = effect.first_entry_id + (index if effect.first_entry_id >= 0 else 0)
                self._receipt(effect.session_id, effect.producer_id, sequence_id, (effect.ledger_id, entry_id))
        elif isinstance(effect, fx.SendColumnarReceipts):
            columns = zip(effect.producer_ids, effect.sequence_ids, effect.ledger_ids, effect.entry_ids, strict=True)
            for producer_id, sequence_id, ledger_id, entry_id in columns:
                self._receipt(effect.session_id, producer_id, sequence_id, (ledger_id, entry_id))
        elif isinstance(effect, fx.SendCommand):
            seen = self._on_answer.get(effect.command.type)
            if seen is not None:
                field_name = BaseCommand.DESCRIPTOR.fields_by_number[effect.command.type].name
                seen(effect.session_id, getattr(effect.command, field_name))

    def _producer_success(self, session_id: int, success: Any) -> None:
        self.judge.leaders.succeed(self.core, session_id, success)
        self.judge.schemas.producer_ready(session_id, success)
        self._admission.producer_ready(session_id, success)

    def _error(self, session_id: int, error: Any) -> None:
        self.judge.leaders.refuse(session_id, error.request_id)
        self._admission.refuse(session_id, error.request_id, error.message)

    def _active_consumer_change(self, session_id: int, change: Any) -> None:
        consumer = self._consumer(session_id, change.consumer_id)
        if consumer is not None:
            self.deliveries.takeovers.tell(consumer, is_active=change.is_active)

    def _reached_end(self, session_id: int, end: Any) -> None:
        consumer = self._consumer(session_id, end.consumer_id)
        if consumer is not None:
            self.endings.tell(consumer)

    def _send_error(self, session_id: int, error: Any) -> None:
        waiting = self._awaiting.get((session_id, error.producer_id), deque())
        for sent in waiting:
            if max(sent.sequence_id, sent.highest_sequence_id or 0) == error.sequence_id:
                waiting.remove(sent)
                self._admission.send_refused(sent, error)
                self._transactions.send_refused(sent, error)
                return

    def _receipt(self, session_id: int, producer_id: int, sequence_id: int, place: Place) -> None:
        waiting = self._awaiting.get((session_id, producer_id))
        sent = self._admission.next_answered(waiting, sequence_id)
        if sent is None or sent.sequence_id != sequence_id:
            raise Violation(f"receipt for sequence id {sequence_id}, the next one is for {sent!r} (PR-9)")
        self._told["receipts"] += 1
        if sent.topic.startswith("non-"):
            return
        durable = self.judge.durable.topics.get(sent.topic, Topic())
        if (*sent.owner, sent.number) not in self.judge.durable.ever and sent.owner not in self.judge.rules.refused:
            raise Violation(f"{sent!r} has a receipt and is not on disk (DUR-1)")
        if place[0] < 0:
            if sent in self._plain:
                raise Violation(f"{sent!r} is called a duplicate without de-duplication")
        elif durable.log.get(place, sent) is not sent:
            raise Violation(f"{sent!r} has a receipt for {place}, where {durable.log[place]!r} stands")

    def _ack_response(self, session_id: int, response: Any) -> None:
        if self._transactions.ack_response(session_id, response):
            return
        promise = self._promises.pop((session_id, response.request_id), None)
        if promise is None or response.HasField("error"):
            return
        topic = self.judge.durable.topics.get(promise.topic)
        subscription = None if topic is None else topic.subscriptions.get(promise.name)
        created_in = self.judge.created_in.get((promise.topic, promise.name), 0)
        if topic is None or subscription is None or created_in != promise.created_in:
            return  # deleted meanwhile
        self._told["acks"] += 1
        lost = promise.broken(topic)
        if lost:
            raise Violation(f"{promise.name} of {promise.topic}: acks of {lost} are confirmed and not on disk (ACK-4)")

    def _success(self, session_id: int, success: Any) -> None:
        request_id = success.request_id
        self._admission.succeed(session_id, request_id)
        seek = self._sought.pop((session_id, request_id), None)
        if seek is not None and not 0 < seek.submit <= self.judge.on_disk and not seek.is_moot:
            raise Violation(f"SUCCESS for {seek}, which is not on disk (CUR-11)")
        asked = self._requests.pop((session_id, request_id), None)
        if asked is None:
            return
        what, topic_name, name, heard_at = asked
        topic = self.judge.durable.topics.get(topic_name)
        there = topic is not None and name in topic.subscriptions
        current = self.judge.current.topics.get(topic_name)
        created_in = self.judge.created_in.get((topic_name, name), 0)
        if what == "subscribe" and not there and self.judge.on_disk < created_in <= heard_at + 1:
            raise Violation(f"SUCCESS for SUBSCRIBE of {name}, which is not on disk")
        is_left = there and created_in <= heard_at and (current is None or name not in current.subscriptions)
        if what == "unsubscribe" and is_left:
            raise Violation(f"SUCCESS for UNSUBSCRIBE of {name}, which is still on disk")
