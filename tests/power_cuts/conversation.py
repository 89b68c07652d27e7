"""What clients asked and what they were answered, read out of the bytes of a recording, in its order."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from spark_pulsar.wire import pulsar_api_pb2 as api

from .recording import Record

_MAGIC_BROKER_ENTRY: Final = b"\x0e\x02"
_UNREAD: Final = frozenset((api.BaseCommand.MESSAGE, api.BaseCommand.PING, api.BaseCommand.PONG, api.BaseCommand.FLOW))


@dataclass(frozen=True, slots=True)
class Said:
    """One command or one REST call: `at` is the place of the record that completed it. `is_answer`: the broker said
    it. `command`: its message of the protocol; of REST `Rest`. `entry`: the bytes of a SEND behind the command."""

    at: int
    connection: int
    is_answer: bool
    kind: str
    command: Any
    entry: bytes = b""


@dataclass(frozen=True, slots=True)
class Rest:
    """A REST call; its answer has a status."""

    method: str
    path: str
    body: bytes
    status: int = 0


def conversation(records: list[Record]) -> list[Said]:
    """All that was said."""
    kinds = {record[1]: record[2] for record in records if record[0] == "made"}
    streams: dict[tuple[str, int], bytearray] = {}
    calls: dict[int, Rest] = {}
    said: list[Said] = []
    for at, record in enumerate(records):
        if record[0] not in ("in", "out"):
            continue
        way, connection, data = record
        stream = streams.setdefault((way, connection), bytearray())
        stream += data
        if kinds[connection] == "binary":
            said += _commands(at, connection, way == "out", stream)
        else:
            said += _calls(at, connection, way == "out", stream, calls)
    return said


def _commands(at: int, connection: int, is_answer: bool, stream: bytearray) -> Iterator[Said]:
    start = 0
    while len(stream) - start >= 8:
        size, command_size = struct.unpack_from(">II", stream, start)
        end = start + 4 + size
        if end > len(stream):
            break
        head_end = start + 8 + command_size
        command = api.BaseCommand.FromString(bytes(stream[start + 8 : head_end]))
        if command.type not in _UNREAD:
            kind = api.BaseCommand.Type.Name(command.type)
            field = command.DESCRIPTOR.fields_by_number[command.type].name
            yield Said(at, connection, is_answer, kind, getattr(command, field), bytes(stream[head_end:end]))
        start = end
    del stream[:start]


def _calls(at: int, connection: int, is_answer: bool, stream: bytearray, calls: dict[int, Rest]) -> Iterator[Said]:
    while True:
        head, found, _ = bytes(stream).partition(b"\r\n\r\n")
        if not found:
            return
        lines = head.decode("latin-1").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        length = int(fields.get("content-length", 0))
        is_chunked = fields.get("transfer-encoding", "").lower() == "chunked"
        body = bytes(stream[len(head) + 4 :])
        if len(body) < length or (is_chunked and not body.endswith(b"0\r\n\r\n")):
            return
        if is_answer:
            rest = calls[connection]
            yield Said(at, connection, True, "REST", Rest(rest.method, rest.path, rest.body, int(lines[0].split()[1])))
        else:
            method, path, _ = lines[0].split()
            rest = calls[connection] = Rest(method, path, body[:length])
            yield Said(at, connection, False, "REST", rest)
        del stream[: len(head) + 4 + (len(body) if is_chunked else length)]


def checked_entry(entry: bytes) -> bytes:
    """The entry of a SEND or a MESSAGE without what a broker put before it."""
    if entry[:2] == _MAGIC_BROKER_ENTRY:
        (size,) = struct.unpack_from(">I", entry, 2)
        return entry[6 + size :]
    return entry
