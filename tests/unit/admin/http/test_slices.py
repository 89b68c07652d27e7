"""Costly requests are done in slices: others run between, what comes and goes does no harm, and some get no answer."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import JSONResponse

from spark_pulsar.admin.http import answers, slices
from spark_pulsar.admin.http.answers import json_answer, json_pieces
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.admin.http.slices import Steps, next_slice, read_in_slices
from spark_pulsar.admin.metrics import metric_table
from spark_pulsar.admin.metrics.metric_table import Scrape
from spark_pulsar.admin.metrics.prometheus_text import blocks
from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.model.names import TopicName
from spark_pulsar.server.core_requests import CoreRequests
from tests.unit.admin.http.conftest import Between
from tests.unit.admin.test_app import BASE, call
from tests.unit.broker.world import QUIET, World

PARTITIONS = 60
TOPIC = TopicName.parse("persistent://public/default/p")


@pytest.fixture
def world() -> World:
    world = World(**QUIET)
    assert call(world, "PUT", f"{BASE}/p/partitions", str(PARTITIONS).encode())[0] == 204
    assert call(world, "PUT", f"{BASE}/p/subscription/s")[0] == 204
    return world


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=60,
)


@given(JSON, st.integers(1, 5))
def test_pieces_are_the_json_of_the_whole(value: Any, short: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "_SHORT", short)
        assert "".join(json_pieces(value)).encode() == JSONResponse(value).body
        assert "".join(json_pieces(value, ensure_ascii=True)) == json.dumps(value, separators=(",", ":"))


@pytest.mark.parametrize(("slice_s", "slices_taken"), [(60, 1), (0, 1_001)])
def test_an_answer_of_many_little_steps_takes_a_slice_for_its_time(
    monkeypatch: pytest.MonkeyPatch, slice_s: float, slices_taken: int
) -> None:
    """Each end of a slice releases the interpreter: a thread that waits for it would wait for the whole answer."""
    taken, sent = [0], bytearray()

    async def counted() -> None:
        taken[0] += 1
        await next_slice()

    async def send(message: Any) -> None:
        sent.extend(message.get("body", b""))

    monkeypatch.setattr(answers, "SLICE_S", slice_s)
    monkeypatch.setattr(answers, "next_slice", counted)
    blocks = (b"x" if number % 100 == 0 else b"" for number in range(1_000))
    asyncio.run(answers.Piecewise(blocks, "text/plain")({"method": "GET"}, None, send))  # type: ignore[arg-type]
    assert (taken[0], len(sent)) == (slices_taken, 10)


def test_a_long_answer_is_the_same_as_a_short_one() -> None:
    value = {"names": [f"é{number}" for number in range(5_000)], "each": {str(number): {} for number in range(2_000)}}
    answer = asyncio.run(json_answer(value))
    whole = JSONResponse(value)
    assert answer.body == whole.body
    assert answer.raw_headers == whole.raw_headers


def test_requests_share_the_slices_in_rotation_and_the_loop_runs_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0)
    happened: list[str] = []

    def steps(name: str) -> Steps[str]:
        for _ in range(3):
            happened.append(name)
            yield
        return name

    async def main() -> list[str]:
        loop = asyncio.get_running_loop()

        def round_of_the_loop() -> None:
            happened.append("|")
            loop.call_soon(round_of_the_loop)

        loop.call_soon(round_of_the_loop)
        left = asyncio.create_task(read_in_slices(steps("gone")))
        waiting = asyncio.gather(*(read_in_slices(steps(name)) for name in "abc"))
        await next_slice()
        left.cancel()
        return await waiting

    assert asyncio.run(main()) == ["a", "b", "c"]
    by_round = "".join(each for each in happened if each != "gone").split("|")
    assert max(map(len, by_round)) == 1
    assert "".join(by_round) == "abcabcabc"


def test_a_list_of_topics_takes_many_slices(world: World, between: Between, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_pulsar.admin.topics.topic_lifecycle._NAMES_A_STEP", 5)
    (first, last) = (TOPIC.at_partition(0), TOPIC.at_partition(PARTITIONS - 1))

    def change(number: int) -> None:
        if number == 3:
            world.ask(lambda core: lifecycle.delete(core, core.topics[first.full]))
            world.ask(lambda core: lifecycle.create(core, TopicName.parse("persistent://public/default/new")))

    between.happens = change
    status, _, listed = call(world, "GET", BASE)
    assert status == 200
    assert between.slices > PARTITIONS // 5
    assert set(listed) >= {TOPIC.at_partition(index).full for index in range(1, PARTITIONS)}
    assert len(listed) == len(set(listed))
    assert last.full in listed


@pytest.mark.parametrize(
    "path",
    ["partitioned-stats", "partitioned-internalStats", "internal-info", "backlog", "subscriptions", "stats"],
)
def test_topics_that_are_deleted_while_they_are_told(world: World, between: Between, path: str) -> None:
    gone: list[str] = []

    def delete(number: int) -> None:
        index = (PARTITIONS - 1 - number // 2) % PARTITIONS  # those that were looked at, and those that were not
        topic = world.core.topics.get(TOPIC.at_partition(index).full)
        if topic is not None and index % 3 == 0:
            gone.append(topic.full_name)
            world.ask(lambda core: lifecycle.delete(core, topic))

    is_one = path == "stats"
    between.happens = (lambda _number: delete(2 * (PARTITIONS - 1))) if is_one else delete
    name = "p-partition-0" if is_one else "p"
    status, _, told = call(world, "GET", f"{BASE}/{name}/{path}")
    assert status == 200, told
    assert gone
    if not is_one:
        assert between.slices > PARTITIONS
    if path == "partitioned-stats":
        left = {TOPIC.at_partition(index).full for index in range(PARTITIONS)} - set(gone)
        assert set(told["partitions"]) >= left


def test_statistics_of_a_topic_with_many_consumers_take_many_slices(world: World, between: Between) -> None:
    for number in range(30):
        call(world, "PUT", f"{BASE}/p-partition-0/subscription/s{number}")
    before = between.slices
    _, _, told = call(world, "GET", f"{BASE}/p-partition-0/stats")
    assert len(told["subscriptions"]) == 31
    assert between.slices > before + 30


def test_metrics_of_many_topics_are_made_in_many_blocks(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_pulsar.admin.metrics.prometheus_text._LINES_A_BLOCK", 10)
    monkeypatch.setattr("spark_pulsar.admin.metrics.prometheus_text._LINES_A_STEP", 5)
    monkeypatch.setattr(metric_table, "_TOPICS_A_PART", 10)
    looked: list[int] = []

    def found(made: Iterator[bytes]) -> Iterator[bytes]:
        for block in made:
            looked.append(block.count(b"\n"))
            yield block

    text = b"".join(found(blocks(Scrape(world.core))))
    assert max(looked) <= 30
    assert looked[:8].count(0) >= 3  # a sum over all topics is made in parts
    assert looked[-100:].count(0) >= 30  # and so is a block
    assert f'pulsar_broker_subscriptions_count{{cluster="standalone"}} {PARTITIONS}\n'.encode() in text


def test_long_texts_are_written_in_pieces() -> None:
    value = [{"version": number, "data": "x" * 100_000} for number in range(20)]
    pieces = list(json_pieces(value))
    assert max(map(len, pieces)) < 110_000
    assert "".join(pieces).encode() == JSONResponse(value).body


class Gate:
    """The core of a world, asked as the server does it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._requests = CoreRequests(asyncio.get_running_loop())

    @property
    def core(self) -> Core:
        return self.world.core

    def submit(self, request: Callable[[Core], Any]) -> asyncio.Future[Any]:
        return self._requests.submit(request, lambda event: self.world.happen([event]))

    def end(self) -> None:
        self._requests.end()


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        (False, "Not answered within 0 s: reading from disk takes too long"),
        (True, "The broker was restarted meanwhile: send the request again"),
    ],
)
def test_only_a_restart_is_called_one(monkeypatch: pytest.MonkeyPatch, ends: bool, text: str) -> None:
    monkeypatch.setattr(slices, "_PATIENCE_S", 0)

    async def ask() -> None:
        asked = Gate(World())

        def begin(_core: Core, _answer: Callable[[Any], None]) -> None:
            if ends:  # after this order was answered
                asyncio.get_running_loop().call_soon(asked.end)

        await slices.run_in_slices(asked, begin)

    with pytest.raises(Refused) as raised:
        asyncio.run(ask())
    assert (raised.value.status, raised.value.message) == (503, text)
