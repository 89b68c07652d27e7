"""De-duplication beside a model: a dict of highest ids. Runs, batches, columnar SENDs, crashes, slow disks."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.unit.broker.world import Client, World, entry

PRODUCERS = 3
IDS = st.integers(0, 12)
SEND = st.tuples(st.integers(1, PRODUCERS), IDS, st.sampled_from((0, 0, 0, 1, 4)))
STEP = st.one_of(
    st.lists(SEND, min_size=1, max_size=12),
    st.lists(IDS, min_size=1, max_size=12, unique=True).map(lambda ids: [(1, each, 0) for each in sorted(ids)]),
    st.sampled_from(("sync", "crash")),
)


class Model:
    """Model of the stored ids: every id once, unless it was lower than one stored before."""

    def __init__(self) -> None:
        self.last: dict[int, int] = {}
        self.stored: list[str] = []

    def copy(self) -> Model:
        other = Model()
        other.last, other.stored = dict(self.last), list(self.stored)
        return other

    def take(self, producer: int, low: int, more: int) -> str:
        last = self.last.get(producer, -1)
        if low > last:
            self.last[producer] = low + more
            self.stored.append(f"{producer}:{low}:{more}")
            return "new"
        return "repeated" if low + more <= last else "mixed"


def connected(world: World) -> tuple[Client, dict[int, int]]:
    """A client with all producers, and the last id that each was told."""
    client = world.connect()
    told: dict[int, int] = {}
    for producer in range(1, PRODUCERS + 1):
        told[producer] = client.open_producer(producer_id=producer, name=f"p{producer}").last_sequence_id
    return client, told


def answers(client: Client) -> list[tuple[int, int, str]]:
    """(producer, id, verdict) of all that came: the lowest id, and the highest of what is refused."""
    found: list[tuple[int, int, str]] = []
    for each in client.take_all():
        if isinstance(each, fx.SendColumnarReceipts):
            found += [(p, s, "new") for p, s in zip(each.producer_ids, each.sequence_ids, strict=True)]
        elif isinstance(each, fx.SendReceipts):
            verdict = "new" if each.first_entry_id >= 0 else "repeated"
            found += [(each.producer_id, sequence_id, verdict) for sequence_id in each.sequence_ids]
        elif isinstance(each, fx.SendCommand) and each.command.type == BaseCommand.SEND_ERROR:
            found.append((each.command.send_error.producer_id, each.command.send_error.sequence_id, "mixed"))
    return found


def of_each(found: list[tuple[int, int, str]]) -> dict[int, list[tuple[int, str]]]:
    """Compares by producer: order among the receipts of one producer is promised, across producers it is not."""
    parts: dict[int, list[tuple[int, str]]] = {}
    for producer, sequence_id, verdict in found:
        parts.setdefault(producer, []).append((sequence_id, verdict))
    return parts


@settings(max_examples=150, deadline=None)
@given(steps=st.lists(STEP, min_size=1, max_size=10))
@example(steps=[[(1, 0, 0)], "sync", "crash", [(1, 0, 0), (1, 1, 0)]])
def test_each_id_is_stored_once_through_crashes(steps: list[list[tuple[int, int, int]] | str]) -> None:
    # Without a subscription, retention alone keeps what was stored before a crash.
    config = {"deduplication": True, "default_retention_size_mb": -1, "default_retention_time_minutes": -1}
    world = World(**config)
    client, _ = connected(world)
    world.disk_is_slow = True
    durable, live = Model(), Model()
    expected: list[tuple[int, int, str]] = []
    for step in steps:
        if step == "sync":
            world.sync()
            assert of_each(answers(client)) == of_each(expected)
            expected.clear()
            durable = live.copy()
        elif step == "crash":
            world = world.restart(**config)
            live = durable.copy()
            client, told = connected(world)
            assert told == {producer: live.last.get(producer, -1) for producer in told}
            world.disk_is_slow = True
            expected.clear()
        else:
            frames = b""
            for producer, low, more in step:
                command = requests.send(producer, low, more + 1, highest_sequence_id=low + more if more else None)
                payload = entry(f"{producer}:{low}:{more}", batch=more + 1 if more else 0)
                frames += payload_frame(command, payload)
                verdict = live.take(producer, low, more)
                expected.append((producer, low + more if verdict == "mixed" else low, verdict))
            client.send_bytes(frames)
    world.disk_is_slow = False
    world.settle()
    reader = world.connect()
    reader.open_consumer("all", permits=10_000, durable=False)
    assert reader.messages() == live.stored
