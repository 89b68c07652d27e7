"""What happens before, and instead of, the first useful command."""

from __future__ import annotations

import struct

import pytest

from tests.brokers import Broker
from tests.raw import RawConnection, command_bytes, frame_bytes


def test_connected_says_who_and_how_large(broker: Broker) -> None:
    # covers A15, J1
    raw = broker.unconnected()
    connected = raw.connect()
    assert connected["server_version"]
    assert connected["protocol_version"] == 21
    assert connected["max_message_size"] == 5_242_880


@pytest.mark.parametrize("version", [15, 19, 20])
def test_an_older_client_is_answered_with_its_own_version(broker: Broker, version: int) -> None:
    # covers A15
    raw = broker.unconnected()
    raw.send("CONNECT", client_version="old", protocol_version=version)
    assert raw.expect("CONNECTED")["protocol_version"] == version


def test_ping_is_answered_before_and_after_the_handshake(broker: Broker) -> None:
    # covers A3, A15
    raw = broker.unconnected()
    raw.send("PING")
    assert raw.expect("PONG").type == "PONG"
    raw.connect()
    raw.send("PING")
    assert raw.expect("PONG").type == "PONG"


def test_frames_split_and_joined_anywhere_are_the_same_frames(broker: Broker) -> None:
    # covers W9
    raw = broker.unconnected()
    connect = frame_bytes(command_bytes("CONNECT", {"client_version": "slow", "protocol_version": 21}))
    ping = frame_bytes(command_bytes("PING", {}))
    for byte in connect:
        raw.send_bytes(bytes([byte]))
    raw.send_bytes(ping * 50 + ping[:7])
    raw.expect("CONNECTED")
    for _ in range(50):
        raw.expect("PONG")
    raw.send_bytes(ping[7:])
    raw.expect("PONG")


MALFORMED = {
    "command longer than the frame": struct.pack(">II", 8, 100) + b"abcd",
    "frame too short for its own size field": struct.pack(">I", 2) + b"ab",
    "garbage command": frame_bytes(b"\xff\xff\xff\xff\xff"),
    "no type": frame_bytes(b"\x92\x01\x00"),
    "missing required field": frame_bytes(b"\x08\x17\xba\x01\x02\x10\x01"),
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_frame_closes_its_connection_only(broker: Broker, raw: RawConnection, data: bytes) -> None:
    # covers A16
    other = broker.raw()
    raw.send_bytes(data)
    raw.expect_closed()
    other.barrier()


def test_a_command_out_of_place_closes_the_connection(broker: Broker, topic: str) -> None:
    # covers A15, A16
    first, again, receipt = broker.unconnected(), broker.raw(), broker.raw()
    first.send("LOOKUP", topic=topic, request_id=1)
    again.send("CONNECT", client_version="again", protocol_version=21)
    receipt.send("SEND_RECEIPT", producer_id=1, sequence_id=1)
    for raw in (first, again, receipt):
        raw.expect_closed()


def test_many_connections_come_and_go(broker: Broker) -> None:
    # covers A6
    for _ in range(50):
        raw = broker.raw()
        raw.close()
    assert broker.unconnected().connect().type == "CONNECTED"
