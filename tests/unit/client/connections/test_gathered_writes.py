"""Commands of one thread that leave together."""

from __future__ import annotations

import pytest

from spark_pulsar.client.connections.gathered_writes import gather, gathering_writes, write_gathered
from spark_pulsar.client.connections.pending import PendingReply
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import ConnectionLost, OperationTimeout


def test_one_write_for_each_connection() -> None:
    # covers READ-22
    one: list[list[bytes]] = []
    two: list[list[bytes]] = []
    write_one, write_two = one.append, two.append
    assert not gather(write_one, b"a")
    with gathering_writes():
        assert gather(write_one, b"a")
        assert gather(write_two, b"b")
        with gathering_writes():
            assert gather(write_one, b"c")
        assert (one, two) == ([], [])
        write_gathered()
        assert (one, two) == ([[b"ac"]], [[b"b"]])
        assert gather(write_one, b"d")
    assert (one, two) == ([[b"ac"], [b"d"]], [[b"b"]])
    assert not gather(write_one, b"e")


def test_who_waits_for_a_reply_has_sent_the_request() -> None:
    written: list[list[bytes]] = []
    write = written.append
    with gathering_writes():
        gather(write, b"request")
        with pytest.raises(OperationTimeout):
            PendingReply().result(Deadline(0, "waiting", "nowhere"))
        assert written == [[b"request"]]


def test_a_lost_connection_keeps_no_other_from_its_commands() -> None:
    written: list[list[bytes]] = []
    write = written.append

    def lost(_: list[bytes]) -> None:
        raise ConnectionLost("gone")

    with gathering_writes():
        gather(lost, b"a")
        gather(write, b"b")
    assert written == [[b"b"]]
