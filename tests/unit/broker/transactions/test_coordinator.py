"""The transaction coordinator: ids, additions, ends, time-outs, limits, owners."""

from typing import Any

import pytest

from spark_pulsar.broker.broker import Broker
from spark_pulsar.broker.configuration.broker_config import BrokerConfig
from spark_pulsar.broker.subscriptions import cursor_moves
from spark_pulsar.broker.transactions import coordinator
from spark_pulsar.broker.transactions.open_transactions import TIME_OUT_US, TURN_US
from spark_pulsar.model.errors import ServerError
from spark_pulsar.model.positions.ids import TransactionId
from spark_pulsar.model.principals import Principal
from spark_pulsar.wire import pulsar_api_pb2 as api
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.commands import command_of
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.contract.memory_storage import MemoryStorage
from tests.unit.broker.transacting import ON, begin, end, publish_in, ready
from tests.unit.broker.world import QUIET, START_MS, TOPIC, Client, World


@pytest.fixture
def world() -> World:
    return World(**ON)


@pytest.fixture
def client(world: World) -> Client:
    return world.connect()


def add(client: Client, txn_id: TransactionId, *names: str) -> Any:
    client.send(requests.add_partitions(client.request_id(), txn_id, names))
    return client.expect(BaseCommand.ADD_PARTITION_TO_TXN_RESPONSE)


def add_subscriptions(client: Client, txn_id: TransactionId, *pairs: tuple[str, str]) -> Any:
    content = api.CommandAddSubscriptionToTxn(
        request_id=client.request_id(),
        txnid_most_bits=txn_id.most,
        txnid_least_bits=txn_id.least,
        subscription=[api.Subscription(topic=topic, subscription=name) for topic, name in pairs],
    )
    return client.request(command_of(content), BaseCommand.ADD_SUBSCRIPTION_TO_TXN_RESPONSE)


def refused(client: Client, coordinator_id: int = 0) -> Any:
    client.send(requests.new_transaction(client.request_id(), coordinator_id, 60_000))
    return client.expect(BaseCommand.NEW_TXN_RESPONSE)


def test_an_invalid_topic_is_refused(client: Client) -> None:
    # covers TX-4
    txn_id = begin(client)
    assert add(client, txn_id, "fine", "bad://x").error == ServerError.InvalidTopicName
    assert add_subscriptions(client, txn_id, ("bad://x", "s")).error == ServerError.InvalidTopicName
    assert add(client, txn_id, "x" * 20_000).error == ServerError.NotAllowedError
    assert add_subscriptions(client, txn_id, ("t", "s" * 5_000)).error == ServerError.NotAllowedError


def test_limits_of_open_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers TX-24
    monkeypatch.setattr(coordinator, "MAX_OPEN_TRANSACTIONS", 3)
    world = World(max_active_transactions=2, **ON)
    world.ask(lambda core: coordinator.set_count(core, 2))
    client = world.connect()
    first = begin(client)
    begin(client)
    answer = refused(client)
    assert (answer.error, "maxActiveTransactionsPerCoordinator" in answer.message) == (
        ServerError.NotAllowedError,
        True,
    )
    begin(client, coordinator=1)
    assert refused(client, 1).error == ServerError.NotAllowedError
    end(client, first)
    begin(client)


def test_a_connection_and_a_role_have_limits_of_their_own() -> None:
    # covers TX-28
    world = World(max_active_transactions_per_connection=2, max_active_transactions_per_role=3, **ON)
    one, other = world.connect(), world.connect()
    for session_id, role in ((one.session_id, "alice"), (other.session_id, "bob")):
        world.core.sessions[session_id].principal = Principal("proxy", role)
    first = begin(one)
    begin(one)
    answer = refused(one)
    assert (answer.error, answer.message) == (
        ServerError.NotAllowedError,
        "The connection has 2 open transactions (maxActiveTransactionsPerConnection): end some first",
    )
    begin(other)  # another role, over a connection of its own
    more = world.connect()
    world.core.sessions[more.session_id].principal = Principal("proxy", "alice")
    begin(more)
    answer = refused(more)
    assert (answer.error, answer.message) == (
        ServerError.NotAllowedError,
        "Role alice has 3 open transactions (maxActiveTransactionsPerRole): end some first",
    )
    end(one, first)
    begin(one)
    one.close()
    assert refused(more).error == ServerError.NotAllowedError, "they are open without the connection, too"
    again = world.restart(max_active_transactions_per_role=3, **ON, **QUIET)
    back = again.connect()
    again.core.sessions[back.session_id].principal = Principal("alice")
    assert refused(back).error == ServerError.NotAllowedError, "and after a restart"
    again.advance(60_000)
    begin(back)


def test_without_authentication_a_role_is_no_limit() -> None:
    # covers TX-28
    world = World(max_active_transactions_per_role=1, max_active_transactions_per_connection=0, **ON)
    client = world.connect()
    assert [begin(client) for _ in range(3)] == [(0, 0), (0, 1), (0, 2)]


def time_outs_by_turn(broker: Broker, now_ms: int) -> list[int]:
    """Numbers of transactions that end in each turn from a time on."""
    transactions, counts = broker.core.state.transactions, []
    while transactions:
        before = len(transactions)
        broker.handle([], now_ms)
        counts.append(before - len(transactions))
        now_ms += 1
    return counts


def test_time_outs_of_thousands_together_are_spread_over_turns(world: World, client: Client) -> None:
    # covers TX-7
    for _ in range(1_000):
        begin(client, 10_000)
    a_turn = -(-TURN_US // TIME_OUT_US)
    counts = time_outs_by_turn(world.broker, world.now_ms + 10_000)
    assert (sum(counts), set(counts[:-1])) == (1_000, {a_turn})
    for _ in range(100):
        begin(client, 10_000)
    world.storage.crash()
    state = MemoryStorage.open(world.disk, auto=False)[1]
    again = Broker(state, BrokerConfig(**ON), world.now_ms + 3_600_000)
    counts = time_outs_by_turn(again, world.now_ms + 3_600_000)
    assert (sum(counts), counts[0]) == (len(counts[:-1]) * a_turn + counts[-1], a_turn), (
        "overdue at the start, likewise"
    )


def test_a_long_time_out_has_a_turn_of_its_own(world: World, client: Client) -> None:
    # covers TX-7
    names = [f"persistent://public/default/t{number}" for number in range(40)]
    for _ in range(3):
        add(client, begin(client, 10_000), *names)
    assert time_outs_by_turn(world.broker, world.now_ms + 10_000) == [1, 1, 1]


def test_a_transaction_of_the_future_ends_within_its_time_out() -> None:
    # covers TX-7, TX-3
    world = World(now_ms=START_MS + 365 * 86_400_000, **ON)
    begin(world.connect(), 5_000)
    again = world.restart(START_MS, **ON)
    again.advance(4_999)
    assert again.state.transactions
    again.advance(1)
    assert again.state.transactions == {}


def test_limits_of_names(world: World, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers TX-24
    monkeypatch.setattr(coordinator, "MAX_PARTITIONS", 3)
    monkeypatch.setattr(coordinator, "MAX_NAMES_LENGTH", 40)
    txn_id = begin(client)
    assert not add(client, txn_id, "a", "b", "c", "a").HasField("error")
    assert add(client, txn_id, "d").error == ServerError.NotAllowedError
    assert not add_subscriptions(client, txn_id, ("a", "1"), ("a", "2"), ("b", "1")).HasField("error")
    assert add_subscriptions(client, txn_id, ("b", "2")).error == ServerError.NotAllowedError
    other = begin(client)
    assert not add(client, other, "x" * 31).HasField("error")
    assert add(client, other, "y").error == ServerError.NotAllowedError
    end(client, txn_id)
    assert not add(client, other, "y" * 9).HasField("error")
    assert world.core.transactions.names_length == 40
    end(client, other)
    assert world.core.transactions.names_length == 0


def test_orders_between_brokers_are_refused(client: Client) -> None:
    # covers TX-6
    txn_id = begin(client)
    for content in (
        api.CommandEndTxnOnPartition(request_id=77, txnid_least_bits=txn_id.least, topic=TOPIC),
        api.CommandEndTxnOnSubscription(request_id=77, txnid_least_bits=txn_id.least),
    ):
        client.send(command_of(content))
        answer = client.take()
        assert BaseCommand.Type.Name(answer.type).endswith("_RESPONSE")
    assert not end(client, txn_id).HasField("error")


def test_nothing_is_kept_of_ended_transactions_but_withheld_entries(world: World, client: Client) -> None:
    # covers TX-21, TX-20
    ready(client)
    for commit in (True, False):
        client.take_all()
        txn_id = begin(client)
        add(client, txn_id, TOPIC, "more")
        publish_in(client, txn_id, "x", first=10 * txn_id.least)
        client.take_all()
        end(client, txn_id, commit=commit)
    topic = world.core.topics[TOPIC]
    assert world.state.transactions == {}
    assert world.core.transactions.open.count_of(0) == 0
    assert (topic.state.open_transactions, topic.transactions.firsts) == ({}, {})  # type: ignore[union-attr]
    assert list(topic.ledger.withheld) == [(1, 1, 4)], "a marker, an aborted entry, a marker"
    client.ack([topic.ledger.first_position])
    world.ask(lambda core: cursor_moves.truncate(core, core.topics[TOPIC]))
    assert not topic.ledger.withheld, "gone with their ledger"
