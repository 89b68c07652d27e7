"""The random walk of `test_random_walk` with entries that are to be delivered later.

Goal: whatever clients, disk and policies do, a Shared consumer gets no entry before its time, and every entry after it.
"""

from __future__ import annotations

from spark_pulsar.broker.topics import policy_changes
from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.model.policies import policy_table
from spark_pulsar.wire.entries.entry_bytes import build_entry, metadata_of
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.cases import cases
from tests.delayed_entries import delayed_entries
from tests.unit.broker.test_random_walk import STEPS, SUBSCRIPTIONS, TOPIC, Scene, check_that_nothing_is_stuck
from tests.unit.broker.world import positions_of

SHARED_ID = list(SUBSCRIPTIONS).index("shared") + 1
LONGEST_MS = 3_000
OFF = {"active": False, "tickTime": 1_000}


class DelayedScene(Scene):
    """Half of the entries have a time; now and then delayed delivery is switched off and on."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.is_off = False
        self.freed: set[tuple[int, int]] = set()
        """Entries that were to be delivered later when it was switched off; they stay free."""

    def publish(self) -> None:
        client, now_ms = self.client(), self.world.now_ms
        if not self.world.core.sessions[client.session_id].producers:
            client.send(requests.producer(client.request_id(), TOPIC, 1))
        entries = []
        for _ in range(self.random.randint(1, 4)):
            metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=now_ms)
            if self.random.random() < 0.5:
                metadata.deliver_at_time = now_ms + self.random.randrange(-10, LONGEST_MS)
            entries.append(build_entry(metadata, str(self.sequence + len(entries)).encode()))
        client.publish(1, *entries, first=self.sequence)
        self.sequence += len(entries)

    def let_time_pass(self) -> None:
        super().let_time_pass()
        if self.random.random() < 0.1:
            self.listen()
            self.is_off = not self.is_off
            wanted = OFF if self.is_off else None
            topic = self.world.state.topics_by_name.get(TOPIC)
            if self.is_off and topic is not None and topic.delays is not None:
                self.freed.update((ledger_id, entry_id) for ledger_id, entry_id, _ in delayed_entries(topic.delays))
            change = policy_changes.set_of_namespace
            self.world.ask(lambda core: change(core, "public/default", policy_table.DELAYED_DELIVERY, wanted))

    def crash(self) -> None:
        now_ms = self.world.now_ms
        super().crash()
        self.world.now_ms = now_ms  # the clock goes on over a restart
        kept = policy_changes.of_namespace(self.world.core, "public/default")
        self.is_off = kept.get(policy_table.DELAYED_DELIVERY) == OFF

    def listen(self) -> None:
        for client in self.clients:
            for effect in client.effects:
                if isinstance(effect, fx.SendMessages) and effect.consumer_id == SHARED_ID and not self.is_off:
                    for place, start, end in zip(positions_of([effect]), effect.starts, effect.ends, strict=True):
                        due_ms = metadata_of(effect.buffer, start, end).deliver_at_time
                        assert due_ms <= self.world.now_ms or place in self.freed, "delivered before its time"
        super().listen()


@cases("seed", range(40))
def test_nothing_comes_before_its_time_and_everything_after_it(seed: int) -> None:
    # covers DEL-2 ... DEL-5, DEL-7, DEL-11
    scene = DelayedScene(seed)
    for _ in range(STEPS):
        scene.step()
    scene.world.disk_is_slow = False
    scene.world.advance(2_000)
    scene.listen()
    check_that_nothing_is_stuck(scene.world)
    scene.clients.clear()
    now_ms = scene.world.now_ms
    scene.world = scene.world.restart(**scene.config)
    scene.world.now_ms = now_ms
    scene.world.advance(LONGEST_MS)
    if not scene.stored:
        return
    ledger = scene.world.state.topics_by_name[TOPIC].ledger
    for name in SUBSCRIPTIONS:
        got = scene.drained(name)
        assert len(got) == len(set(got)), "delivered twice without a reason"
        assert not set(got) & scene.acked[name], "acked, yet delivered again"
        gone = {each for each in scene.stored if not ledger.contains(each)}
        missing = scene.stored - set(got) - scene.asked[name]
        assert missing <= gone, "receipted and never acked, yet not delivered"
        assert not missing & scene.held, "trimmed although a subscription needs it (TRIM-1)"
    delays = scene.world.state.topics_by_name[TOPIC].delays
    assert not delays, "what is over leaves the index"
