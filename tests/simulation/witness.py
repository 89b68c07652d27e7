"""The witness: stands at the core's door, hears what clients ask for as the core hears it, and every order of the core.

What the core tells a client must be true at that moment: a receipt names an entry that is on disk, an ack's answer an
ack that is, a delivered entry is on disk, whole, not acked, and comes in its turn.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from spark_pulsar.broker import effects as fx
from spark_pulsar.broker import events as ev
from spark_pulsar.broker.consumers import Consumer
from spark_pulsar.broker.core import Core
from spark_pulsar.model.ids import signed
from spark_pulsar.wire import ack_sets
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandAck, CommandSubscribe

from .account import Place, Sent, Topic
from .judge import Judge, Seek, Violation

Range = tuple[int, int, int]


@dataclass(slots=True)
class Promise:
    """What an ack with a receipt asked for."""

    topic: str
    name: str
    places: list[Place]
    parts: list[tuple[Place, int]]


@dataclass(slots=True)
class Delivering:
    """How far deliveries of one subscription are."""

    consumer: Consumer | None = None
    last: Place | None = None
    acked: set[Place] = field(default_factory=set)
    """What a reader acked; nobody else keeps account of that."""
    holders: dict[Place, Consumer] = field(default_factory=dict)
    """Shared: who was sent what and has neither acked nor given it back."""


class Witness:
    """Hears events and effects of one core; a new one for every start."""

    def __init__(self, judge: Judge, core: Core, told: Counter[str]) -> None:
        self.judge = judge
        self.core = core
        self._told = told
        self._awaiting: dict[tuple[int, int], deque[Sent]] = {}
        """Entries received and not answered, by (session, producer id)."""
        self._promises: dict[tuple[int, int], Promise] = {}
        self._requests: dict[tuple[int, int], tuple[str, str, str, int]] = {}
        """What SUCCESS will mean, by (session, request id): what was asked, topic, subscription, submits till then."""
        self._sought: dict[tuple[int, int], Seek] = {}
        self._deliveries: dict[tuple[str, str], Delivering] = {}
        self._on_command = {
            BaseCommand.ACK: self._ack,
            BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES: self._redeliver,
            BaseCommand.SUBSCRIBE: self._subscribe,
            BaseCommand.SEEK: self._seek,
            BaseCommand.UNSUBSCRIBE: self._unsubscribe,
        }

    # What clients ask for: called at each event's place in the order, before the core has it

    def hear(self, event: ev.Event) -> None:
        """An event is next."""
        if isinstance(event, ev.SendsReceived):
            if event.flaw is None:
                self._sends(event.session_id, [event.run.producer_id] * len(event.run), event.run)
        elif isinstance(event, ev.SweepReceived):
            self._sends(event.session_id, event.sweep.producer_ids, event.sweep)
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
        for producer_id, start, end in zip(producer_ids, sends.starts, sends.ends, strict=True):
            if producer_id in session.producers:
                sent = self.judge.sent[sends.buffer[start:end]]
                self._awaiting.setdefault((session_id, producer_id), deque()).append(sent)

    def _ack(self, session_id: int, command: CommandAck) -> None:
        consumer = self._consumer(session_id, command.consumer_id)
        if consumer is None:
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
        topic = self.judge.live.topics.get(topic_name)
        if topic is None:
            return
        if name not in topic.subscriptions:
            self._reader_acked(consumer, is_cumulative, ranges, topic)
            return
        if not self.core.config.batch_index_acks:
            parts = [] if not is_cumulative else [(place, -1) for place, _ in parts]
        places = [(ledger, entry) for ledger, first, end in ranges for entry in range(first, end)]
        if is_cumulative:
            if subscription.type == CommandSubscribe.Shared:
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
        holders = self._delivering(topic_name, name).holders
        acked = topic.subscriptions[name].acked
        for place in (*places, *(place for place, _ in parts)):
            if place in acked:
                holders.pop(place, None)
        if request_id is not None:
            self._promises[session_id, request_id] = Promise(topic_name, name, places, parts)

    def _reader_acked(self, consumer: Consumer, is_cumulative: bool, ranges: list[Range], topic: Topic) -> None:
        acked = self._delivering(consumer.subscription.topic.full_name, consumer.subscription.name).acked
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
        delivering = self._delivering(topic_name, name)
        delivering.last = None
        wanted = {(signed(each.ledgerId), signed(each.entryId)) for each in command.message_ids}
        back = [
            place
            for place, holder in delivering.holders.items()
            if holder is consumer and (not wanted or place in wanted)
        ]
        for place in back:
            del delivering.holders[place]
        if back and subscription.is_durable:
            self.judge.post("redelivered", topic_name, name, back)

    def _subscribe(self, session_id: int, command: CommandSubscribe) -> None:
        if command.consumer_id in self.core.sessions[session_id].consumers:
            return
        asked = ("subscribe", command.topic, command.subscription, self.judge.submitted)
        topic = self.core.topics.get(command.topic)
        if topic is not None and command.subscription in topic.subscriptions:
            self._requests[session_id, command.request_id] = asked
        elif command.durable:
            latest = command.initialPosition == CommandSubscribe.Latest
            self.judge.initial[command.topic, command.subscription] = latest
            self._requests[session_id, command.request_id] = asked

    def _seek(self, session_id: int, command: Any) -> None:
        consumer = self._consumer(session_id, command.consumer_id)
        if consumer is None or consumer.subscription.fenced:
            return
        subscription = consumer.subscription
        key = (subscription.topic.full_name, subscription.name)
        for request in [each for each, promise in self._promises.items() if (promise.topic, promise.name) == key]:
            del self._promises[request]
        self._deliveries.pop(key, None)
        if not subscription.is_durable:
            return
        place = None
        if command.HasField("message_id"):
            place = (signed(command.message_id.ledgerId), signed(command.message_id.entryId))
        through = tuple(subscription.topic.confirmed)
        seek = Seek(place, command.message_publish_time, through)  # type: ignore[arg-type]
        self.judge.seeks.setdefault(key, deque()).append(seek)
        self._sought[session_id, command.request_id] = seek

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

    # What the core orders

    def see(self, effect: fx.Effect) -> None:
        """The core orders something for a client."""
        if isinstance(effect, fx.SendMessages):
            self._messages(effect)
        elif isinstance(effect, fx.SendReceipts):
            for index, sequence_id in enumerate(effect.sequence_ids):
                entry_id = effect.first_entry_id + (index if effect.first_entry_id >= 0 else 0)
                self._receipt(effect.session_id, effect.producer_id, sequence_id, (effect.ledger_id, entry_id))
        elif isinstance(effect, fx.SendScatteredReceipts):
            columns = zip(effect.producer_ids, effect.sequence_ids, effect.ledger_ids, effect.entry_ids, strict=True)
            for producer_id, sequence_id, ledger_id, entry_id in columns:
                self._receipt(effect.session_id, producer_id, sequence_id, (ledger_id, entry_id))
        elif isinstance(effect, fx.SendCommand):
            command = effect.command
            if command.type == BaseCommand.ACK_RESPONSE:
                self._ack_response(effect.session_id, command.ackResponse)
            elif command.type == BaseCommand.SUCCESS:
                self._success(effect.session_id, command.success.request_id)
            elif command.type == BaseCommand.SEND_ERROR:
                self._send_error(effect.session_id, command.send_error)

    def _send_error(self, session_id: int, error: Any) -> None:
        waiting = self._awaiting.get((session_id, error.producer_id), deque())
        for sent in waiting:
            if sent.sequence_id == error.sequence_id:
                waiting.remove(sent)
                return

    def _receipt(self, session_id: int, producer_id: int, sequence_id: int, place: Place) -> None:
        waiting = self._awaiting.get((session_id, producer_id))
        sent = waiting.popleft() if waiting else None
        if sent is None or sent.sequence_id != sequence_id:
            raise Violation(f"receipt for sequence id {sequence_id}, the next one is for {sent!r} (PR-9)")
        durable = self.judge.durable.topics.get(sent.topic)
        times = 0 if durable is None else durable.stored.get((sent.producer, sent.number), 0)
        if not times or durable is None:
            raise Violation(f"{sent!r} has a receipt and is not on disk (DUR-1)")
        if place[0] < 0:
            if not self.judge.deduplicates:
                raise Violation(f"{sent!r} is called a duplicate without de-duplication")
        elif durable.log.get(place, sent) is not sent:
            raise Violation(f"{sent!r} has a receipt for {place}, where {durable.log[place]!r} stands")
        self._told["receipts"] += 1

    def _ack_response(self, session_id: int, response: Any) -> None:
        promise = self._promises.pop((session_id, response.request_id), None)
        if promise is None or response.HasField("error"):
            return
        topic = self.judge.durable.topics.get(promise.topic)
        subscription = None if topic is None else topic.subscriptions.get(promise.name)
        if topic is None or subscription is None:
            return  # deleted meanwhile
        self._told["acks"] += 1
        lost = [place for place in promise.places if place in topic.log and place not in subscription.acked]
        for place, bits in promise.parts:
            if place in topic.log and place not in subscription.acked:
                left = subscription.bits.get(place, topic.log[place].full)
                lost += [place] if left & ~bits else []
        if lost:
            raise Violation(f"{promise.name} of {promise.topic}: acks of {lost} are confirmed and not on disk (ACK-4)")

    def _success(self, session_id: int, request_id: int) -> None:
        seek = self._sought.pop((session_id, request_id), None)
        if seek is not None and not 0 < seek.submit <= self.judge.on_disk and not seek.is_moot:
            raise Violation(f"SUCCESS for {seek}, which is not on disk (CUR-11)")
        asked = self._requests.pop((session_id, request_id), None)
        if asked is None:
            return
        what, topic_name, name, heard_at = asked
        topic = self.judge.durable.topics.get(topic_name)
        there = topic is not None and name in topic.subscriptions
        live = self.judge.live.topics.get(topic_name)
        created_in = self.judge.created_in.get((topic_name, name), 0)
        if what == "subscribe" and not there and self.judge.on_disk < created_in <= heard_at + 1:
            raise Violation(f"SUCCESS for SUBSCRIBE of {name}, which is not on disk")
        if what == "unsubscribe" and there and (live is None or name not in live.subscriptions):
            raise Violation(f"SUCCESS for UNSUBSCRIBE of {name}, which is still on disk")

    def _delivering(self, topic_name: str, name: str) -> Delivering:
        return self._deliveries.setdefault((topic_name, name), Delivering())

    def _messages(self, effect: fx.SendMessages) -> None:
        consumer = self._consumer(effect.session_id, effect.consumer_id)
        if consumer is None:
            raise Violation(f"MESSAGE to consumer {effect.consumer_id} of session {effect.session_id}, which is gone")
        subscription = consumer.subscription
        name, topic_name = subscription.name, subscription.topic.full_name
        live, durable = self.judge.live.topics[topic_name], self.judge.durable.topics.get(topic_name)
        where = f"{name} of {topic_name}"
        account = live.subscriptions.get(name) if subscription.is_durable else None
        delivering = self._delivering(topic_name, name)
        is_shared = subscription.type == CommandSubscribe.Shared
        self._told["deliveries"] += len(effect.starts)
        for index, (start, end) in enumerate(zip(effect.starts, effect.ends, strict=True)):
            place = (effect.ledger_id, effect.first_entry_id + index)
            sent = live.log.get(place)
            if sent is None or sent.entry != effect.buffer[start:end]:
                raise Violation(f"{where}: {place} is delivered and holds {sent!r}")
            if durable is None or place not in durable.log:
                raise Violation(f"{where}: {place} is delivered before it is on disk (ML-5)")
            if account is not None:
                if self.judge.rules.must_be_expired(sent):
                    raise Violation(f"{where}: {place} is delivered though it is expired (TTL-1)")
                if place in account.acked:
                    raise Violation(f"{where}: {place} is delivered though it is acked (ACK-4)")
                bits = None if effect.ack_sets is None else effect.ack_sets[index]
                if bits != account.bits.get(place):
                    raise Violation(f"{where}: {place} is delivered with {bits}, not {account.bits.get(place)} (ACK-9)")
                count = 0 if effect.redelivery_counts is None else effect.redelivery_counts[index]
                if is_shared and count != account.redelivered.get(place, 0):
                    raise Violation(f"{where}: {place} is delivered with redelivery count {count} (RC-1)")
            if is_shared:
                self._hold(where, delivering, place, consumer)
            else:
                self._in_turn(where, delivering, place, consumer, live, account.acked if account else delivering.acked)

    def check_nothing_is_stuck(self) -> None:
        """The world is at rest: who can receive has got everything there is for it (SH-10, EX-2)."""
        for topic_name, topic in self.core.topics.items():
            for name, subscription in topic.subscriptions.items():
                if not subscription.is_durable or not any(each.can_receive for each in subscription.consumers):
                    continue
                delivering = self._delivering(topic_name, name)
                wanted = self.judge.live.topics[topic_name].unacked(name)
                if subscription.type == CommandSubscribe.Shared:
                    limit = self.core.config.max_unacked_per_subscription
                    if limit and sum(each.unacked for each in subscription.consumers) >= limit // 2:
                        continue
                    holders = delivering.holders
                    stuck = [place for place in wanted if holders.get(place) not in subscription.consumers]
                else:
                    last = delivering.last if delivering.consumer in subscription.consumers else None
                    stuck = [place for place in wanted if last is None or place > last]
                if stuck:
                    raise Violation(f"{name} of {topic_name}: {stuck} are wanted, can be sent, and are not (SH-10)")

    def _hold(self, where: str, delivering: Delivering, place: Place, consumer: Consumer) -> None:
        holder = delivering.holders.get(place)
        if holder is not None and holder in consumer.subscription.consumers:
            raise Violation(f"{where}: {place} is delivered while {holder.name or 'a consumer'} holds it (SH-4)")
        delivering.holders[place] = consumer

    def _in_turn(
        self, where: str, delivering: Delivering, place: Place, consumer: Consumer, log: Topic, acked: set[Place]
    ) -> None:
        """Exclusive: everything unacked, in order, nothing left out (EX-2)."""
        if delivering.consumer is not consumer:
            delivering.consumer, delivering.last = consumer, None
        last = delivering.last
        if last is not None and place <= last:
            raise Violation(f"{where}: {place} is delivered after {last} (EX-2)")
        if last is not None or consumer.subscription.is_durable:
            name, topic_name = consumer.subscription.name, consumer.subscription.topic.full_name
            may_skip = self.judge.rules.may_skip
            missed = [
                each
                for each, sent in log.log.items()
                if (last is None or last < each) and each < place and each not in acked
                if not (consumer.subscription.is_durable and may_skip(topic_name, name, sent))
            ]
            if missed:
                raise Violation(f"{where}: {place} is delivered, {missed} are not (EX-2)")
        delivering.last = place
