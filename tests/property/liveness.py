"""Liveness of subscriptions in a random life (see `lives`). After each step, once the disk has answered, three things
must hold:

- a consumer that may receive has got everything there is for it (SH-10),
- waking all subscriptions sends nothing: no wake-up was forgotten, whatever the rules in force are,
- each consumer got as many messages as permits left its account, and holds them until they are acked (SUB-4).

Of Key_Shared, one consumer at a time has a key, and its entries come in order (KS-1).

Delivery is judged by what clients see, acks by the cursor, which other tests judge.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spark_pulsar.broker.dispatch.failover import FailoverDispatcher
from spark_pulsar.broker.dispatch.key_shared.classic import ClassicKeySharedDispatcher
from spark_pulsar.broker.dispatch.key_shared.dispatcher import KeySharedDispatcher
from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.broker.turn.events import WritingResumed
from spark_pulsar.model.positions.ids import EARLIEST, Position
from spark_pulsar.wire.keys.murmur3 import murmur3_32
from tests.property.lives import SLICES, Eater, Life
from tests.unit.broker.world import TOPIC

_RELEASE_MS: Final = 20
"""Within that time a delayed entry goes out when it is due."""
_RETRY_MS: Final = 1_100
"""Within that time a read that failed is tried again."""


class JudgedLife(Life):
    """A life whose every step is judged."""

    def run(self, steps: int) -> None:
        """Runs random steps, each of them judged; then all consumers receive and ack: nothing may be left."""
        choices, weights = list(self.steps), list(self.steps.values())
        for _ in range(steps):
            self.random.choices(choices, weights)[0]()
            self.listen()
            self.judge()
        self.finish()

    # Who gets what

    def owed(self) -> Iterator[Position]:
        """Lists unacknowledged entries that could be delivered by now."""
        topic = self.world.core.topics[TOPIC]
        held = set().union(*(eater.held for eater in self.eaters))
        for ledger_id, first, end in self.subscription.cursor.unacked(EARLIEST, topic.last_add_confirmed, 1 << 30):
            for entry_id in range(first, end):
                place = Position(ledger_id, entry_id)
                is_due = not self.is_sharing or self.sent[place].due_ms + _RELEASE_MS <= self.world.now_ms
                if is_due and place not in held:
                    yield place

    def receiver(self, place: Position) -> Eater | None:
        """Finds the consumer that should have got an entry; None when none may receive it at the moment."""
        what, subscription = self.sent[place], self.subscription
        dispatcher = subscription.dispatcher
        able = [eater for eater in self.eaters if self.can_receive(eater)]
        if isinstance(dispatcher, FailoverDispatcher):
            delay_ms = self.world.core.config.failover_delay_ms
            is_started = self.world.now_ms >= self.moved_ms + delay_ms
            active = dispatcher.active_consumer
            return next((each for each in able if is_started and self.consumer(each) is active), None)
        if isinstance(dispatcher, KeySharedDispatcher):
            selector = dispatcher.selector
            sticky_hashes = {
                each: selector.sticky_hash_of(murmur3_32(each.encode())) for each in {what.key, *self.keys_held()}
            }
            owner = next(
                (each for each in able if self.consumer(each) is selector.owner(sticky_hashes[what.key])), None
            )
            if not dispatcher.keeps_order:
                return owner
            if isinstance(dispatcher, ClassicKeySharedDispatcher) and owner is not None:
                newcomers = dispatcher.newcomers
                if self.consumer(owner) in newcomers and place >= min(newcomers.values()):
                    return None
            others = [key for each in self.eaters if each is not owner for key in self.keys_held([each])]
            return None if sticky_hashes[what.key] in [sticky_hashes[key] for key in others] else owner
        if what.uuid:  # whoever has a part of a large message gets the rest
            mates = [each for each in self.eaters if any(self.sent[one].uuid == what.uuid for one in self.live(each))]
            able = [each for each in able if not mates or each in mates]
        return able[0] if able else None

    def keys_held(self, eaters: list[Eater] | None = None) -> set[str]:
        return {
            self.sent[place].key for each in (self.eaters if eaters is None else eaters) for place in self.live(each)
        }

    # The judge

    def see(self, eater: Eater, place: Position) -> None:
        """Nobody else has entries of its key, and no earlier one is left out but what was negatively acked (KS-13)."""
        what, is_acked = self.sent[place], self.subscription.cursor.is_acked
        if self.kind == "keys":
            holders = [each for each in self.eaters if each is not eater and self.consumer(each) is not None]
            assert what.key not in self.keys_held(holders), f"{place}: its key is at two consumers (KS-1)"
            earlier = {
                each for each, its in self.sent.items() if its.key == what.key and each < place and not its.due_ms
            }
            missing = [each for each in earlier - eater.held - self.given_back if not is_acked(*each)]
            assert not missing, f"{place} comes before {missing} of its key (KS-1)"
        self.given_back.discard(place)

    def judge(self) -> None:
        """Nothing stands still, once the disk has answered."""
        if self.world.disk_is_slow:
            return
        self.judge_counts()
        if not (self.has_limits or self.expires) and self.world.now_ms > self.reads_failed_ms + _RETRY_MS:
            for place in self.owed():
                stuck = self.receiver(place)
                assert stuck is None, f"{place} is there, {self.consumer(stuck).name} waits for it (SH-10)"
        self.world.ask(wake_all)
        for eater in self.eaters:
            assert not any(isinstance(each, fx.SendMessages) for each in eater.client.effects), "a wake-up was missing"

    def judge_counts(self) -> None:
        cursor = self.subscription.cursor
        for eater in self.eaters:
            consumer = self.consumer(eater)
            if consumer is None:
                continue
            assert consumer.permits == eater.left, "granted = sent + left (SUB-4)"
            messages = 0
            for place in self.live(eater) if self.is_sharing else ():
                bits, size = cursor.batch_set(*place), self.sent[place].messages
                messages += size if bits is None else bits.bit_count()
            assert consumer.unacked == messages, "unacked = sum of what is pending (SH-6)"

    def finish(self) -> None:
        """Lets all consumers receive and ack at once: all entries come, and none is left."""
        self.world.disk_is_slow = False
        self.world.happen([])
        self.listen()
        while len(self.eaters) < (len(SLICES) if self.kind == "sticky keys" else 1):
            self.join()
            self.listen()
        for eater in self.eaters:
            self.world.happen([WritingResumed(eater.client.session_id)])
            self.grant(eater, 10_000)
        self.world.advance(5_000)
        while True:
            self.listen()
            backlog = self.subscription.backlog
            if not backlog:
                break
            for eater in self.eaters:
                eater.client.ack(sorted(eater.held))
            assert self.subscription.backlog < backlog, f"no consumer gets the last {backlog} entries"
        assert not self.unconfirmed
        self.judge_counts()


def wake_all(core: Core) -> None:
    """Has every subscription look whether it can send something."""
    for topic in core.topics.values():
        for subscription in topic.subscriptions.values():
            core.wake(subscription)
