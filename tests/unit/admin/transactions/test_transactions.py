"""/admin/v3/transactions in one process: coordinators, ends long ago, limits, metrics."""

from typing import Any

import pytest

from spark_pulsar.broker.transactions import coordinator, outcome
from spark_pulsar.broker.transactions.coordinator import MAX_COORDINATORS
from tests.unit.admin.metrics.test_metrics import metrics_of
from tests.unit.admin.test_app import call
from tests.unit.broker.transacting import ON, abort, begin, end, publish_in
from tests.unit.broker.world import TOPIC, Client, World, entry

BASE = "/admin/v3/transactions"
OF_TOPIC = "public/default/t"


def get(world: World, path: str) -> Any:
    status, _, answer = call(world, "GET", f"{BASE}/{path}")
    assert status == 200, answer
    return answer


def aborted(world: World, number: int) -> bool:
    return bool(get(world, f"transactionInBufferStats/{OF_TOPIC}/0/{number}")["aborted"])


def ended_ones(client: Client, count: int, text: str = "x") -> None:
    """Transactions 0 … count - 1 with an entry each; those of even numbers are aborted."""
    client.open_producer()
    for number in range(count):
        txn_id = begin(client)
        publish_in(client, txn_id, text, first=number)
        (end if number % 2 else abort)(client, txn_id)
        client.take_all()


def test_how_a_transaction_ended_is_read_from_its_entries() -> None:
    # covers TX-22, TX-17
    world = World(**ON)
    ended_ones(world.connect(), 6)
    assert [aborted(world, number) for number in range(7)] == [True, False, True, False, True, False, False]
    world = world.restart(**ON)
    assert [aborted(world, number) for number in range(7)] == [True, False, True, False, True, False, False]


def test_long_entries_are_read_in_several_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers TX-22
    monkeypatch.setattr(outcome, "_BYTES_A_READ", 1_000)
    monkeypatch.setattr(outcome, "MAX_ENTRIES", 23)
    world = World(**ON)
    client = world.connect()
    client.open_producer()
    txn_id = begin(client)
    publish_in(client, txn_id, *["y" * 400] * 20)
    abort(client, txn_id)
    client.take_all()
    ended_after = begin(client)
    publish_in(client, ended_after, "x", first=20)
    abort(client, ended_after)
    assert aborted(world, txn_id.least)
    assert aborted(world, ended_after.least)


def test_an_end_is_looked_for_among_the_newest_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers TX-22, TX-24
    world = World(**ON)
    ended_ones(world.connect(), 6)
    monkeypatch.setattr(outcome, "MAX_ENTRIES", 9)  # each aborted one has an entry and a marker, others a marker
    assert aborted(world, 0)
    monkeypatch.setattr(outcome, "MAX_ENTRIES", 7)
    assert not aborted(world, 0)
    assert aborted(world, 2)


def test_coordinators_have_a_limit() -> None:
    # covers TX-2, TX-24
    world = World(**ON)
    path = f"{BASE}/transactionCoordinator/replicas"
    status, _, answer = call(world, "POST", path, str(MAX_COORDINATORS + 1).encode())
    assert (status, answer["reason"]) == (406, "Number of transaction coordinators should be above 1 and up to 1024")
    assert call(world, "POST", path, str(MAX_COORDINATORS).encode())[0] == 204
    assert len(get(world, "coordinators")) == len(get(world, "coordinatorStats")) == MAX_COORDINATORS
    world = world.restart(**ON)
    begin(world.connect(), coordinator=MAX_COORDINATORS - 1)
    stats = get(world, f"coordinatorStats?coordinatorId={MAX_COORDINATORS - 1}")
    assert (stats["leastSigBits"], stats["lowWaterMark"], stats["ongoingTxnSize"]) == (0, -1, 1)
    assert call(world, "POST", path, b'"many"')[0] == 400
    assert call(world, "POST", path)[2] == {"reason": "The request entity cannot be empty."}


def test_slow_ones_are_those_with_a_longer_time_out() -> None:
    # covers TX-22
    world = World(**ON)
    assert call(world, "POST", f"{BASE}/transactionCoordinator/replicas", b"2")[0] == 204
    client = world.connect()
    for timeout_ms in (1_000, 2_000):
        for number in (0, 1):
            begin(client, timeout_ms, number)
    assert list(get(world, "slowTransactions/999")) == ["(0,0)", "(1,0)", "(0,1)", "(1,1)"]
    assert list(get(world, "slowTransactions/1000")) == ["(0,1)", "(1,1)"]
    assert list(get(world, "slowTransactions/1000?coordinatorId=1")) == ["(1,1)"]
    assert get(world, "slowTransactions/2000") == {}


def test_metrics_of_what_coordinators_did() -> None:
    # covers TX-23
    world = World(**ON)
    client = world.connect()
    client.open_producer()
    for wait_ms in (10, 11):
        txn_id = begin(client)
        publish_in(client, txn_id, "x", first=wait_ms)
        world.advance(wait_ms)
        client.take_all()
        end(client, txn_id)
        client.take_all()
    timed_out = begin(client, 4_000_000)
    world.advance(4_000_000)
    assert timed_out not in world.state.transactions
    client = world.connect()
    client.open_producer()
    publish_in(client, begin(client), "y", first=50)
    found = metrics_of(world)
    counts = {name.removeprefix("pulsar_txn_"): value for (name, *labels), value in found.items() if labels == ["0"]}
    durations = {name: value for name, value in counts.items() if name.startswith("execution_latency_le_")}
    assert {name: value for name, value in durations.items() if value} == {
        "execution_latency_le_10": 1,
        "execution_latency_le_20": 1,
        "execution_latency_le_overflow": 1,
    }
    assert len(durations) == len(coordinator.DURATIONS_MS) + 1
    assert {name: value for name, value in counts.items() if name not in durations} == {
        "active_count": 1,
        "created_total": 4,
        "committed_total": 2,
        "aborted_total": 1,
        "timeout_total": 1,
        "append_log_total": 7,
    }
    of_topic = [found[f"pulsar_txn_tb_{name}_total", TOPIC] for name in ("active", "committed", "aborted")]
    assert of_topic == [1, 2, 0]
    _, _, text = call(world, "GET", "/metrics")
    assert "# TYPE pulsar_txn_tb_active_total gauge\n" in text
    assert "# TYPE pulsar_txn_tp_committed_count_total counter\n" in text


def test_no_coordinators_in_metrics_while_transactions_are_off() -> None:
    # covers TX-1, TX-23
    world = World()
    client = world.connect()
    client.open_producer()
    client.publish(1, entry("x"))
    names = {name for name, *_ in metrics_of(world) if name.startswith("pulsar_txn_")}
    assert names == {f"pulsar_txn_tb_{each}_total" for each in ("active", "committed", "aborted")}
