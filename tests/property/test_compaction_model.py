"""Compaction beside a model: a dict of last values. Batches, deletions, trimming, settling and crashes in any order."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.broker.compacting import batch, compact, compacted_view, keyed, publish
from tests.unit.broker.world import TOPIC, Client, World

KEYS = st.sampled_from(("a", "b", "c", "d", None))
MESSAGES = st.lists(st.tuples(KEYS, st.booleans()), min_size=1, max_size=4)
Step = tuple[str, list[tuple[str | None, bool]]]
STEP: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.sampled_from(("singles", "batch", "batch")), MESSAGES),
    st.tuples(st.sampled_from(("compact", "settle", "restart", "consume", "compact and crash")), st.just([])),
)


# Nothing is ever compacted by itself, but what is to be compacted is held from the first message on.
HELD: dict[str, Any] = {"compaction_threshold_bytes": 10**12}


class Model:
    """Every message in order; of those up to the horizon only the last of each key counts."""

    def __init__(self) -> None:
        self.messages: list[tuple[str | None, str]] = []
        self.horizon = 0

    def visible(self) -> list[str]:
        """Values of the compacted view, without the empty ones."""
        last = {key: index for index, (key, _) in enumerate(self.messages[: self.horizon])}
        left = [value for index, (key, value) in enumerate(self.messages[: self.horizon]) if last[key] == index and key]
        return [value for value in left + [value for _, value in self.messages[self.horizon :]] if value]


def values(world: World, permits: int) -> list[str]:
    return [text for _, texts in compacted_view(world, permits) for text in texts if text not in ("", "-")]


def connected(world: World) -> Client:
    client = world.connect()
    client.open_producer()
    return client


@settings(max_examples=120, deadline=None)
@given(
    steps=st.lists(STEP, min_size=1, max_size=16),
    block_entries=st.integers(1, 5),
    permits=st.sampled_from((1, 3, 10_000)),
)
def test_the_view_is_the_last_value_of_each_key(steps: list[Step], block_entries: int, permits: int) -> None:
    world, model, number = World(**HELD), Model(), 0
    client = connected(world)
    for kind, messages in steps:
        world.block_entries = block_entries
        named: list[tuple[str | None, str]] = []
        for key, deleted in messages:
            named.append((key, "" if deleted and key else f"{key}{number}"))
            number += 1
        model.messages += named
        if kind == "singles":
            publish(client, *[keyed(key, value) for key, value in named])
        elif kind == "batch":
            publish(client, batch(*named), messages=len(named))
        elif kind == "compact":
            compact(world)
            model.horizon = len(model.messages)
        elif kind == "settle":
            world.storage.checkpoint(world.state)
            world.settle()
        elif kind == "consume":
            _consume_all(world)
        else:
            if kind == "compact and crash":
                world.disk_is_slow = True
                compact(world)
                world.sync()
                world.serve_compactions()
            world = world.restart(**HELD)
            client = connected(world)
        assert values(world, permits) == model.visible()


def _consume_all(world: World) -> None:
    """A durable subscription that wants nothing of what is there: the rest is held by compaction alone."""
    topic = world.core.topics.get(TOPIC)
    if topic is not None and topic.state.compaction is not None and "s" not in topic.subscriptions:
        client = world.connect()
        client.open_consumer("s", initial_position=0)
        client.close()
