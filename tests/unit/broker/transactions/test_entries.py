"""Entries of transactions: stored at once, visible after the commit, withheld after an abort."""

import pytest

from spark_pulsar.broker.turn.effects import SendMessages, SendReceipts
from spark_pulsar.model.errors import ServerError
from spark_pulsar.model.positions.ids import Position, TransactionId
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.unit.broker.transacting import ON, begin, end, publish_in, ready
from tests.unit.broker.world import Client, World, entry, payloads, producing


def receipts_and_messages(client: Client) -> tuple[list[tuple[int, Position]], list[str]]:
    receipts = [each for each in client.effects if isinstance(each, SendReceipts)]
    messages = [each for each in client.take_all() if isinstance(each, SendMessages)]
    client.effects = list(receipts)
    return client.receipts(), [text for each in messages for text in payloads(each)]


def test_nothing_is_visible_before_the_end_is_on_disk() -> None:
    # covers TX-17
    world = World(**ON)
    client = world.connect()
    ready(client)
    txn_id = begin(client)
    publish_in(client, txn_id, "x")
    client.take_all()
    world.disk_is_slow = True
    client.send(requests.end_transaction(client.request_id(), txn_id, commit=True))
    assert client.take_all() == []
    world.sync()
    world.settle()
    assert client.take().type == BaseCommand.END_TXN_RESPONSE
    assert client.messages() == ["x"]


@pytest.mark.parametrize("commit", [True, False])
def test_a_send_in_a_transaction_that_has_ended_is_refused(commit: bool) -> None:
    # covers TX-8
    client = World(**ON).connect()
    ready(client)
    txn_id = begin(client)
    end(client, txn_id, commit=commit)
    for wrong in (txn_id, TransactionId(0, 99), TransactionId(5, 0)):
        publish_in(client, wrong, "late")
        refused = client.expect(BaseCommand.SEND_ERROR)
        assert refused.error == ServerError.NotAllowedError
        assert str(wrong) in refused.message
    client.publish(1, entry("plain"), first=1)
    assert receipts_and_messages(client)[1] == ["plain"]


def test_a_refused_batch_is_named_by_its_highest_sequence_id() -> None:
    # covers TX-8, A2: what the Java client finds its batch by
    client = World(**ON).connect()
    client.open_producer()
    for low, high in ((0, 3), (4, 6)):
        send = requests.send(1, low, high - low + 1, high, transaction=TransactionId(0, 99))
        client.send_bytes(payload_frame(send, entry("late", batch=high - low + 1)))
        assert client.expect(BaseCommand.SEND_ERROR).sequence_id == high


def test_a_run_in_a_transaction_is_one_run() -> None:
    # covers TX-8
    world, client = producing(**ON)
    txn_id = begin(client)
    publish_in(client, txn_id, *("x" * 200), first=1_000)
    (receipts,) = client.take_all()
    assert len(receipts.sequence_ids) == 200
    (entries,) = world.state.transactions[txn_id].entries.values()
    assert list(entries) == [(1, 0, 200)]
