"""Sessions that attacks begin with: commands in the order in which clients send them, then damaged."""

from __future__ import annotations

import struct
from random import Random
from typing import Final

from spark_pulsar.wire import pulsar_api_pb2 as api
from tests.fuzz import values
from tests.fuzz.commands import TYPES, Memory, command
from tests.fuzz.entries import entry
from tests.fuzz.trees import LENGTH, VARINT, Field, encoded, mutate, tree_of

STORIES: Final[tuple[str, ...]] = (
    "PRODUCER SEND SEND SEND CLOSE_PRODUCER",
    "PRODUCER SEND*20 PRODUCER SEND*20",
    "PRODUCER SEND*5 SUBSCRIBE FLOW wait ACK*4 REDELIVER_UNACKNOWLEDGED_MESSAGES wait ACK UNSUBSCRIBE",
    "SUBSCRIBE FLOW PRODUCER SEND*8 wait ACK*3 SEEK wait GET_LAST_MESSAGE_ID CONSUMER_STATS FLOW CLOSE_CONSUMER",
    "SUBSCRIBE SUBSCRIBE SUBSCRIBE FLOW FLOW PRODUCER SEND*10 wait ACK*10 CLOSE_CONSUMER UNSUBSCRIBE",
    "SUBSCRIBE SEEK SEEK FLOW GET_LAST_MESSAGE_ID REDELIVER_UNACKNOWLEDGED_MESSAGES ACK*20",
    "GET_SCHEMA GET_OR_CREATE_SCHEMA PRODUCER SEND GET_SCHEMA SUBSCRIBE GET_OR_CREATE_SCHEMA*3",
    "PARTITIONED_METADATA LOOKUP PRODUCER LOOKUP SUBSCRIBE PARTITIONED_METADATA",
    "GET_TOPICS_OF_NAMESPACE WATCH_TOPIC_LIST PRODUCER PRODUCER wait WATCH_TOPIC_LIST_CLOSE WATCH_TOPIC_LIST*3",
    "NEW_TXN ADD_PARTITION_TO_TXN ADD_SUBSCRIPTION_TO_TXN PRODUCER SEND END_TXN TC_CLIENT_CONNECT_REQUEST",
    "END_TXN_ON_PARTITION END_TXN_ON_SUBSCRIPTION PRODUCER SEND NEW_TXN",
    "PING PONG PING CONNECT CONNECT AUTH_RESPONSE AUTH_CHALLENGE PING",
    "any any any any any any any any",
    "any*40",
)
CONNECT: Final = "CONNECT"
WAIT: Final = "wait"


def steps(choices: Random) -> list[str]:
    """Draws the commands of a session; `wait` reads what has come."""
    found: list[str] = []
    for word in choices.choice(STORIES).split():
        name, _, times = word.partition("*")
        found += [name] * int(times or 1)
    if choices.random() < 0.2:
        choices.shuffle(found)
    if choices.random() < 0.2:
        at = choices.randrange(len(found))
        found[at:at] = found[: choices.randrange(len(found))]
    return found


def frame(choices: Random, name: str, memory: Memory, damage: float) -> bytes:
    """Draws the frame of a command; with probability `damage` something in it is wrong."""
    if name == "any":
        name = choices.choice(list(TYPES))
    made = command(choices, name, memory)
    fields = tree_of(made)
    if choices.random() < damage:
        for _ in range(choices.choice((1, 1, 1, 2, 5))):
            mutate(choices, fields, api.BaseCommand.DESCRIPTOR)
    if choices.random() < damage / 20:
        fields = [Field(1, VARINT, values.integer(choices)), Field(choices.randrange(1, 80), LENGTH, b"")]
    body = encoded(fields)
    rest = b""
    if name in ("SEND", "MESSAGE") or choices.random() < damage / 20:
        rest = entry(choices, made.send.sequence_id, damage)
    return _framed(choices, body, rest, damage)


def _framed(choices: Random, body: bytes, rest: bytes, damage: float) -> bytes:
    total, size = 4 + len(body) + len(rest), len(body)
    if choices.random() < damage / 10:
        wrong = (0, 1, 4, 5, 6, total - 1, total + 1, total + 100, 5_253_000, 5_253_119, 2**31, 2**32 - 1)
        total = choices.choice(wrong)
    if choices.random() < damage / 10:
        size = choices.choice((0, 1, 2, size - 1, size + 1, total, total - 3, total + 1, 2**31, 2**32 - 1))
    data = bytearray(struct.pack(">II", total % 2**32, size % 2**32) + body + rest)
    if choices.random() < damage / 10:
        for _ in range(choices.choice((1, 1, 3))):
            data[choices.randrange(len(data))] ^= 1 << choices.randrange(8)
    return bytes(data)
