"""Turn budget: a turn takes in as much as one submit holds, and one event at the least."""

from __future__ import annotations

import pytest

from spark_pulsar.broker.turn.events import AcksReceived, CommandReceived, Event, Requested
from spark_pulsar.ledger.storage import MAX_SUBMIT_BYTES
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.server.connections.turn_budget import TURN_BYTES, taken
from spark_pulsar.wire.protocol import commands, requests
from spark_pulsar.wire.protocol.acks import PlainAck
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand

PART_BYTES = 1_000_000


def ack_with_properties() -> BaseCommand:
    command = requests.ack(1, [Position(1, 0)], cumulative=True)
    command.ack.properties.add(key="k" * PART_BYTES, value=1)
    return command


def ack_of_parts() -> BaseCommand:
    command = requests.ack(1, [Position(1, 0)])
    command.ack.message_id[0].ack_set.extend([-1] * (PART_BYTES // 8))
    return command


def seek_into_a_batch() -> BaseCommand:
    command = BaseCommand(type=BaseCommand.SEEK)
    command.seek.consumer_id = command.seek.request_id = 1
    command.seek.message_id.ledgerId = command.seek.message_id.entryId = 1
    command.seek.message_id.ack_set.extend([-1] * (PART_BYTES // 8))
    return command


@pytest.mark.parametrize("command", [ack_with_properties(), ack_of_parts(), seek_into_a_batch()])
def test_what_a_command_keeps_counts(command: BaseCommand) -> None:
    # covers ACK-5, ACK-9: hostile input
    events: list[Event] = [CommandReceived(1, command) for _ in range(300)]
    count = taken(events)
    assert count < 100
    assert count * PART_BYTES <= TURN_BYTES


def test_acks_of_whole_entries_count_by_their_ranges() -> None:
    few, many = ([(1, 2 * number, 2 * number + 1) for number in range(size)] for size in (1, 100_000))
    assert taken([AcksReceived(1, PlainAck(1, False, many, None)) for _ in range(300)]) < 30
    assert taken([AcksReceived(1, PlainAck(1, False, few, None)) for _ in range(300)]) == 300


def test_a_request_to_the_admin_api_may_make_a_topic_with_thousands_of_partitions() -> None:
    # covers TN-7: hostile input
    assert 1 <= taken([Requested(lambda core: None)] * 300) < 10


def test_asking_for_partitions_costs_nothing_beside() -> None:
    asked = CommandReceived(1, requests.partition_metadata(1, "persistent://public/default/t"))
    assert taken([asked] * 1_000) == 1_000


def test_small_commands_are_taken_all_and_one_is_taken_however_large() -> None:
    assert taken([CommandReceived(1, commands.ping())] * 1_000) == 1_000
    assert taken([CommandReceived(1, ack_of_parts())]) == 1
    assert taken([]) == 0
    assert MAX_SUBMIT_BYTES >= 4 * TURN_BYTES
