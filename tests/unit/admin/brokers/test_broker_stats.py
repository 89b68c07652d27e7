"""Statistics of all topics: made in pieces, whole JSON whatever comes and goes meanwhile."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from spark_pulsar.admin.app import build_app
from spark_pulsar.admin.brokers import broker_stats
from spark_pulsar.admin.http import answers
from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.model.names import TopicName
from tests.unit.admin.test_app import Gate, call
from tests.unit.broker.world import World

PATH = "/admin/v2/broker-stats/topics"


def names(*numbers: int) -> list[str]:
    return [f"persistent://public/{'default' if number % 2 else 'other'}/t{number}" for number in numbers]


def filled(count: int) -> World:
    world = World()
    assert call(world, "PUT", "/admin/v2/namespaces/public/other")[0] == 204

    def create(core: Core) -> None:
        for name in names(*range(count)):
            lifecycle.create(core, TopicName.parse(name))

    world.ask(create)
    return world


def found_in(answer: Any) -> list[str]:
    return [
        name
        for bundles in answer.values()
        for domains in bundles.values()
        for topics in domains.values()
        for name in topics
    ]


def answered(world: World, between: Callable[[int], None], method: str = "GET") -> list[bytes]:
    """The blocks of the answer, each in a slice of its own. `between` is called, with their number, when others run
    after one of them."""
    blocks: list[bytes] = []
    scope = {"type": "http", "method": method, "path": PATH, "raw_path": PATH.encode(), "query_string": b""}
    scope |= {"headers": [], "http_version": "1.1", "scheme": "http", "server": ("x", 80), "client": ("y", 1)}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        if message.get("body"):
            blocks.append(message["body"])
            asyncio.get_running_loop().call_soon(between, len(blocks))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "SLICE_S", 0)
        asyncio.run(build_app(lambda: Gate(world))(scope, receive, send))  # type: ignore[arg-type, return-value]
    return blocks


def test_others_run_while_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers ADM-72
    monkeypatch.setattr(broker_stats, "_BLOCK_CHARACTERS", 1000)
    monkeypatch.setattr(broker_stats, "_NAMES_A_TURN", 4)
    world = filled(20)
    turns: list[int] = []
    blocks = answered(world, turns.append)
    assert turns == list(range(1, len(blocks) + 1)), "a turn of the loop after each block"
    assert len(blocks) > 5
    assert sorted(found_in(json.loads(b"".join(blocks)))) == sorted(names(*range(20)))
    assert answered(world, turns.append, "HEAD") == []


def test_topics_come_and_go_while_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_stats, "_BLOCK_CHARACTERS", 1)
    world = filled(20)
    left = names(0, 1, 2, 3)

    def change(core: Core) -> None:
        for name in set(names(*range(20))) - set(left):
            lifecycle.delete(core, core.topics[name])
        lifecycle.create(core, TopicName.parse(names(21)[0]))

    def between(blocks: int) -> None:
        if blocks == 1:
            world.ask(change)

    assert set(found_in(json.loads(b"".join(answered(world, between))))) == set(left)

    def empty(core: Core) -> None:
        for topic in list(core.topics.values()):
            lifecycle.delete(core, topic)

    def at_once(blocks: int) -> None:
        if blocks == 1:
            world.ask(empty)

    assert found_in(json.loads(b"".join(answered(world, at_once)))) == []
    assert json.loads(b"".join(answered(world, at_once))) == {}


def test_a_namespace_that_goes_while_names_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_stats, "_NAMES_A_TURN", 1)
    world = filled(4)
    blocks = broker_stats.blocks(world.core)
    assert next(blocks) == b"", "others run, with one topic of one namespace sorted in"
    for number in (1, 3):
        assert call(world, "DELETE", f"/admin/v2/persistent/public/default/t{number}")[0] == 204
    assert call(world, "DELETE", "/admin/v2/namespaces/public/default")[0] == 204
    assert found_in(json.loads(b"".join(blocks))) == names(0, 2)
