"""Play the client's side of a recording, and compare the broker's side field by field.

What the broker sends is ordered within a *lane* (one producer, one consumer, one request) and free across lanes: an
expected frame is compared with the next unread frame of its lane, whatever else came before it. Ledger and transaction
ids are mapped at their first appearance.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.raw import Frame, RawConnection, command_bytes, entry_bytes, frame_bytes

NO_REQUEST = 2**64 - 1
_MAPPED = ("ledgerId", "txnid_least_bits")
_NOT_MAPPED = (2**64 - 1, 2**63 - 1)
_UNKNOWN_TRANSACTION = 9999
_ABSENT_HIGHEST = (0, 2**64 - 1)
_QUIET_S = 0.25
_TURN_S = 0.02

# Values that name the run, not the behaviour; a text only has to be there.
_ANY_VALUE = {
    "CONNECTED": {"server_version"},
    "LOOKUP_RESPONSE": {"brokerServiceUrl", "message"},
    "PARTITIONED_METADATA_RESPONSE": {"message"},
    "ERROR": {"message"},
    "SEND_ERROR": {"message"},
    "ACK_RESPONSE": {"message"},
    "GET_SCHEMA_RESPONSE": {"error_message"},
    "GET_OR_CREATE_SCHEMA_RESPONSE": {"error_message"},
    "END_TXN_RESPONSE": {"message"},
    "CONSUMER_STATS_RESPONSE": {"address", "connectedSince"},
}
# Told more than once, at times (FO-5, TN-13).
_MAY_REPEAT = ("ACTIVE_CONSUMER_CHANGE", "REACHED_END_OF_TOPIC")
# The recording names one field as older versions did.
_RENAMED = {"txn_ttl_seconds": "txn_ttl_millis"}
# True on a standalone only, which tells its clients to stay at the address they used.
_MAY_BE_ABSENT = {"LOOKUP_RESPONSE": {"proxy_through_service_url"}}


@dataclass(frozen=True)
class Line:
    """One recorded frame; `number` counts from 1 in its file."""

    number: int
    sent: bool
    connection: str
    frame: Frame


@dataclass(frozen=True)
class Recording:
    """One file of frames."""

    name: str
    lines: list[Line]

    @property
    def topics(self) -> list[str]:
        """Every topic with a namespace that exists, as named by the client, in order of appearance."""
        named = [line.frame.fields.get("topic", "") for line in self.lines if line.sent]
        return [name for name in dict.fromkeys(named) if "://public/" in name and "no-such-ns" not in name]


def load(path: Path) -> Recording:
    """Reads a `.jsonl` recording."""
    lines = []
    for number, text in enumerate(path.read_text().splitlines(), start=1):
        row = json.loads(text)
        payload = None if row["payload"] is None else bytes.fromhex(row["payload"])
        fields = {_RENAMED.get(key, key): value for key, value in row["fields"].items()}
        frame = Frame(row["type"], fields, row.get("metadata"), payload, row.get("checksum"))
        lines.append(Line(number, row["dir"] == ">", row.get("conn", "A"), frame))
    return Recording(path.stem, lines)


def lane(frame: Frame) -> tuple[object, ...]:
    """Stream that a frame is ordered within."""
    fields = frame.fields
    if frame.type in ("SEND_RECEIPT", "SEND_ERROR", "CLOSE_PRODUCER"):
        return ("producer", fields["producer_id"])
    if frame.type == "ACTIVE_CONSUMER_CHANGE":
        return ("active", fields["consumer_id"])
    if frame.type in ("MESSAGE", "CLOSE_CONSUMER", "REACHED_END_OF_TOPIC"):
        return ("consumer", fields["consumer_id"])
    if frame.type == "WATCH_TOPIC_UPDATE":
        return ("watcher", fields["watcher_id"])
    if fields.get("request_id", NO_REQUEST) != NO_REQUEST:
        return ("request", fields["request_id"])
    return (frame.type,)


@dataclass
class Replay:
    """One run of a recording. `play` raises AssertionError at the first difference, naming the file and line.

    Attributes:
        connect: Opens a new connection to the broker, nothing sent yet.
        interludes: What happens beside the connections, by the number of the line before which it does.
        any_split: MESSAGE frames may reach any consumer that has permits for them.
        own_fields: Fields of the broker's frame on that line that differ from the recording on purpose.
        optional_flags: Feature flags of CONNECTED that this broker does not raise.
        timeout_s: How long an expected frame may take.
    """

    recording: Recording
    connect: Callable[[], RawConnection]
    interludes: Mapping[int, Callable[[], None]] = field(default_factory=dict)
    any_split: bool = False
    own_fields: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    optional_flags: frozenset[str] = frozenset()
    timeout_s: float = 10.0
    _connections: dict[str, RawConnection] = field(default_factory=dict)
    _unread: dict[str, list[Frame]] = field(default_factory=dict)
    _ids: dict[tuple[str, int], int] = field(default_factory=dict)
    _with_highest: set[tuple[str, int, int]] = field(default_factory=set)
    _permits: dict[tuple[str, int], int] = field(default_factory=dict)
    _split: list[Line] = field(default_factory=list)

    def play(self) -> None:
        """Replays all lines; afterwards nothing unread may be left."""
        for line in self.recording.lines:
            if line.number in self.interludes:
                self.interludes[line.number]()
            if line.sent:
                self._send(line)
            elif self.any_split and line.frame.type == "MESSAGE":
                self._split.append(line)
            else:
                self._expect(line)
        if self.any_split:
            self._compare_split()
        self._expect_silence()

    def _send(self, line: Line) -> None:
        frame = line.frame
        # A new CONNECT on a known connection is a second one; the recordings open a connection by its first frame.
        if line.connection not in self._connections:
            self._connections[line.connection] = self.connect()
            self._unread[line.connection] = []
        connection = self._connections[line.connection]
        if frame.type == "RAW":
            connection.send_bytes(bytes.fromhex(frame.fields["hex"]))
            return
        fields = self._own_ids(line, frame.fields)
        if frame.type == "FLOW":
            consumer = (line.connection, fields["consumer_id"])
            self._permits[consumer] = self._permits.get(consumer, 0) + fields["messagePermits"]
        rest = b""
        if frame.type == "SEND":
            if "highest_sequence_id" in fields:
                self._with_highest.add((line.connection, fields["producer_id"], fields["sequence_id"]))
            assert frame.metadata is not None
            assert frame.payload is not None
            rest = entry_bytes(self._own_ids(line, frame.metadata), frame.payload, frame.checksum or "ok")
        connection.send_bytes(frame_bytes(command_bytes(frame.type, fields), rest))

    def _own_ids(self, line: Line, value: Any) -> Any:
        """Recorded fields with recorded ids replaced by this run's."""
        if isinstance(value, Mapping):
            return {
                name: self._own_id(line, name, each) if name in _MAPPED else self._own_ids(line, each)
                for name, each in value.items()
            }
        if isinstance(value, list):
            return [self._own_ids(line, each) for each in value]
        return value

    def _own_id(self, line: Line, name: str, recorded: int) -> int:
        if recorded in _NOT_MAPPED or name == "txnid_least_bits":
            return self._ids.get((name, recorded), recorded)
        assert (name, recorded) in self._ids, f"{self._at(line)}: {name} {recorded} was never seen"
        return self._ids[name, recorded]

    def _expect(self, line: Line) -> None:
        wanted = lane(line.frame)
        deadline = time.monotonic() + self.timeout_s
        while True:
            unread = self._unread[line.connection]
            for index, frame in enumerate(unread):
                if lane(frame) == wanted:
                    if self._is_repeat(frame, line):
                        continue
                    del unread[index]
                    self._compare(line, frame)
                    return
            for connection in self._connections.values():
                connection.serve()
            fresh = self._connections[line.connection].next_frame(_TURN_S)
            if fresh is not None:
                unread.append(fresh)
                continue
            late = time.monotonic() > deadline
            assert not late, f"{self._at(line)}: no {line.frame.type} {dict(line.frame.fields)}; unread: {unread}"

    def _is_repeat(self, frame: Frame, line: Line) -> bool:
        return frame.type == "ACTIVE_CONSUMER_CHANGE" and frame.fields != line.frame.fields

    def _compare(self, line: Line, got: Frame) -> None:
        want = line.frame
        if line.number in self.own_fields:
            want = replace(want, fields=want.fields | self.own_fields[line.number])
        where = self._at(line)
        assert got.type == want.type, (
            f"{where}: {got.type} {dict(got.fields)} instead of {want.type} {dict(want.fields)}"
        )
        names = set(want.fields) | set(got.fields)
        names -= {name for name in _MAY_BE_ABSENT.get(want.type, ()) if name not in got.fields}
        for name in sorted(names):
            assert name in got.fields, (
                f"{where}: {want.type}.{name} = {want.fields[name]!r} is missing in {dict(got.fields)}"
            )
            assert name in want.fields, f"{where}: {want.type}.{name} = {got.fields[name]!r} was not in the recording"
            if name not in _ANY_VALUE.get(want.type, ()):
                self._compare_value(line, f"{want.type}.{name}", want.fields[name], got.fields[name])
        for part in ("metadata", "payload", "checksum"):
            wanted, found = self._own_ids(line, getattr(want, part)), getattr(got, part)
            assert found == wanted, f"{where}: {part} of {want.type} is {found!r}, not {wanted!r}"

    def _compare_value(self, line: Line, name: str, want: Any, got: Any) -> None:
        where = f"{self._at(line)}: {name}"
        if name == "SEND_RECEIPT.highest_sequence_id":
            sent = (line.connection, line.frame["producer_id"], line.frame["sequence_id"])
            if sent not in self._with_highest:
                assert got in _ABSENT_HIGHEST, f"{where} is {got} though the SEND had none"
                return
        if name == "CONNECTED.feature_flags":
            want = {flag: value for flag, value in want.items() if flag not in self.optional_flags}
            got = {flag: value for flag, value in got.items() if value}
        field_name = name.rpartition(".")[2]
        if field_name in _MAPPED and want not in _NOT_MAPPED and want != _UNKNOWN_TRANSACTION:
            mapped = self._ids.setdefault((field_name, want), got)
            assert got == mapped, f"{where} is {got}; {want} was {mapped} before"
            same = [key for key, value in self._ids.items() if key[0] == field_name and value == got]
            assert len(same) == 1, f"{where}: {got} stands for two of the recording: {same}"
        elif isinstance(want, Mapping):
            assert isinstance(got, Mapping), where
            assert set(got) == set(want), f"{where} is {got}, not {want}"
            for key in want:
                self._compare_value(line, f"{name}.{key}", want[key], got[key])
        elif isinstance(want, list):
            assert len(got) == len(want), f"{where} is {got}, not {want}"
            for each, other in zip(want, got, strict=True):
                self._compare_value(line, name, each, other)
        else:
            assert got == want, f"{where} is {got!r}, not {want!r}"

    def _compare_split(self) -> None:
        """All messages arrive, each once, at any consumer with a permit for it, in storage order at each."""
        arrived: dict[int, Frame] = {}
        last: dict[tuple[str, int], int] = {}
        deadline = time.monotonic() + self.timeout_s
        while len(arrived) < len(self._split) and time.monotonic() < deadline:
            for name in self._connections:
                self._take_split(name, arrived, last)
        for line in self._split:
            entry = line.frame.position[1]
            assert entry in arrived, f"{self._at(line)}: entry {entry} did not arrive"
            own = Frame(
                "MESSAGE", arrived[entry].fields | {"consumer_id": line.frame["consumer_id"]}, *_content(arrived[entry])
            )
            self._compare(line, own)

    def _take_split(self, name: str, arrived: dict[int, Frame], last: dict[tuple[str, int], int]) -> None:
        """Reads the frames of one connection, into `arrived` by entry; `last` is the newest entry of each consumer."""
        unread = self._unread[name]
        while len(arrived) < len(self._split):
            fresh = next((frame for frame in unread if frame.type == "MESSAGE"), None)
            if fresh is not None:
                unread.remove(fresh)
            else:
                fresh = self._connections[name].next_frame(_QUIET_S)
                if fresh is None:
                    return
                if fresh.type != "MESSAGE":
                    unread.append(fresh)
                    continue
            consumer, entry = fresh["consumer_id"], fresh.position[1]
            assert entry not in arrived, f"{self.recording.name}: entry {entry} came twice"
            assert entry > last.get((name, consumer), -1), f"{self.recording.name}: entry {entry} out of order"
            self._permits[name, consumer] -= 1
            assert self._permits[name, consumer] >= 0, f"{self.recording.name}: more than the permits of {consumer}"
            last[name, consumer] = entry
            arrived[entry] = fresh

    def _expect_silence(self) -> None:
        for name, connection in self._connections.items():
            unread = self._unread[name]
            while (fresh := connection.next_frame(_QUIET_S)) is not None and fresh.type != "CLOSED":
                unread.append(fresh)
            left = [frame for frame in unread if frame.type not in _MAY_REPEAT]
            assert not left, f"{self.recording.name}: not in the recording, on connection {name}: {left}"

    def _at(self, line: Line) -> str:
        return f"{self.recording.name}:{line.number}"


def _content(frame: Frame) -> tuple[Any, Any, Any]:
    return frame.metadata, frame.payload, frame.checksum
