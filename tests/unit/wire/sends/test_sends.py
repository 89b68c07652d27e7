"""Runs of SENDs: what is gathered, what splits a run, what is visible of a bad entry; receipts (A2)."""

import struct

import pytest
from crc32c import crc32c

from spark_pulsar.model.errors import MalformedFrame
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.entries import entry_bytes
from spark_pulsar.wire.protocol import commands, frames, requests
from spark_pulsar.wire.protocol.frames import Frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, MessageMetadata
from spark_pulsar.wire.sends import run_splitter, send_runs
from spark_pulsar.wire.sends.columnar_reading import read_columnar_sends
from spark_pulsar.wire.sends.receipts import receipts
from spark_pulsar.wire.sends.run_splitter import RunSplitter
from spark_pulsar.wire.sends.send_runs import LEAST, STREAK, ColumnarSends, SendRun
from tests import entry_commands
from tests.cases import cases

PING = frames.command_frame(commands.ping())


def entry(payload: bytes = b"x", with_checksum: bool = True) -> bytes:
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    return entry_bytes.build_entry(metadata, payload, with_checksum)


def send(producer_id: int, sequence_id: int, count: int = 1, highest: int | None = None, stored: bytes = b"") -> bytes:
    return frames.payload_frame(requests.send(producer_id, sequence_id, count, highest), stored or entry())


def odd_send(stored: bytes = b"", **fields: object) -> bytes:
    """A SEND of producer 1, sequence 200, with rare fields."""
    command = BaseCommand(type=BaseCommand.SEND)
    command.send.producer_id, command.send.sequence_id = 1, 200
    for name, value in fields.items():
        setattr(command.send, name, value)
    return frames.payload_frame(command, stored or entry())


def runs_of(data: bytes) -> list[SendRun]:
    items = RunSplitter().feed_sends(data)
    assert all(isinstance(item, SendRun) for item in items)
    return [item for item in items if isinstance(item, SendRun)]


def stored_in(run: SendRun) -> list[bytes]:
    return [run.buffer[start:end] for start, end in zip(run.starts, run.ends, strict=True)]


@cases("first", [0, 1, 126, 127, 128, 16_383, 2**21 - 2, 2**32 - 3, 2**63 - 2])
@cases("producer_id", [0, 127, 128, 16_384, 2**64 - 1])
def test_one_run_whatever_the_numbers(first: int, producer_id: int) -> None:
    ids = list(range(first, first + 300))
    payloads = [entry(str(sequence_id).encode()) for sequence_id in ids]
    data = b"".join(send(producer_id, at, stored=stored) for at, stored in zip(ids, payloads, strict=True))
    (run,) = runs_of(data)
    assert (run.producer_id, run.flags, run.transaction) == (producer_id, send_runs.PLAIN, None)
    assert run.sequence_ids == ids
    assert run.message_counts == [1] * 300
    assert run.highest_sequence_ids is None
    assert stored_in(run) == payloads
    assert run.buffer is data
    assert len(run) == 300
    assert repr(run) == f"SendRun(producer_id={producer_id}, entries=300, flags=0)"


def test_highest_sequence_ids_make_a_run_of_their_own() -> None:
    # Java batches have them, its single messages have not.
    data = send(1, 10, 5, 14) + send(1, 15, 200, 214) + send(1, 215) + send(1, 216) + send(1, 217, 3, 219)
    first, second, third = runs_of(data)
    assert (first.sequence_ids, first.highest_sequence_ids, first.message_counts) == ([10, 15], [14, 214], [5, 200])
    assert (second.sequence_ids, second.highest_sequence_ids) == ([215, 216], None)
    assert third.highest_sequence_ids == [219]


def test_a_run_is_of_one_producer() -> None:
    turn = list(range(1000, 1000 + STREAK))
    runs = runs_of(b"".join(send(producer, number) for producer in (1, 200, 1) for number in turn))
    assert [(run.producer_id, run.sequence_ids) for run in runs] == [(1, turn), (200, turn), (1, turn)]


def test_other_commands_end_a_run_and_keep_their_place() -> None:
    data = send(1, 200) + send(1, 201) + PING + send(1, 202)
    first, ping, second = RunSplitter().feed_sends(data)
    assert isinstance(first, SendRun)
    assert isinstance(second, SendRun)
    assert ping == Frame(data, first.ends[-1], first.ends[-1] + len(PING))
    assert (first.sequence_ids, second.sequence_ids) == ([200, 201], [202])


class TestColumnarSends:
    """Producers in turn."""

    @staticmethod
    def turns(*stretches: tuple[int, int]) -> bytes:
        """SENDs of (producer, how many in a row)."""
        return b"".join(send(producer, 300 + i) for producer, count in stretches for i in range(count))

    @staticmethod
    def kinds(data: bytes, least: int = 2) -> list[tuple[str, int]]:
        splitter = RunSplitter()
        splitter.least_columnar_sends = least
        return [
            (type(item).__name__, 1 if isinstance(item, Frame) else len(item)) for item in splitter.feed_sends(data)
        ]

    def test_after_two_producers_comes_one(self) -> None:
        data = self.turns((1, 1), (2, 1), (1, 2), (300, 7), (1, 1), *[(number, 1) for number in range(9)])
        splitter = RunSplitter()
        first, second, columnar_sends = splitter.feed_sends(data)
        assert isinstance(first, SendRun)
        assert isinstance(second, SendRun)
        assert isinstance(columnar_sends, ColumnarSends)
        assert columnar_sends.buffer is data
        assert list(columnar_sends.producer_ids) == [1, 1, *[300] * 7, 1, *range(9)]
        assert list(columnar_sends.sequence_ids) == [300, 301, *range(300, 307), 300, *[300] * 9]
        assert list(columnar_sends.message_counts) == [1] * 19
        assert [data[start:end] for start, end in zip(columnar_sends.starts, columnar_sends.ends, strict=True)] == [
            entry()
        ] * 19
        assert repr(columnar_sends) == "ColumnarSends(entries=19)"
        (columnar_sends,) = splitter.feed_sends(data)  # who took turns does so again
        assert len(columnar_sends) == 21

    def test_few_stay_runs(self) -> None:
        for count, kinds in ((LEAST - 1, ["SendRun"] * (LEAST + 1)), (LEAST, ["SendRun", "SendRun", "ColumnarSends"])):
            data = self.turns((8, 1), (9, 1), *[(number, 1) for number in range(count)])
            assert [kind for kind, _ in self.kinds(data, LEAST)] == kinds

    def test_one_producer_stays_a_run(self) -> None:
        assert self.kinds(self.turns((1, 1))) == [("SendRun", 1)]
        assert self.kinds(self.turns((1, 100))) == [("SendRun", 100)]
        assert self.kinds(self.turns((1, STREAK), (2, STREAK), (1, STREAK))) == [("SendRun", STREAK)] * 3

    def test_a_streak_ends_it(self) -> None:
        turns = [(1, 1), (2, 1), (1, 1), (2, STREAK - 1)]
        data = self.turns(*turns, (3, 50), *turns)
        runs = [("SendRun", 1)] * 2
        assert self.kinds(data) == [*runs, ("ColumnarSends", STREAK), ("SendRun", 50), *runs, ("ColumnarSends", STREAK)]

    def test_others_end_it_and_keep_their_place(self) -> None:
        turns = self.turns((1, 1), (2, 1), (1, 1), (2, 1))
        found = [("SendRun", 1), ("SendRun", 1), ("ColumnarSends", 2)]
        assert self.kinds(turns + PING + turns) == [*found, ("Frame", 1), ("ColumnarSends", 4)]
        bad = bytearray(send(2, 5, stored=entry(b"x")))
        bad[-1] ^= 1
        long = send(2, 5, stored=entry(b"x"))
        long = struct.pack(">I", len(long) - 3) + long[4:] + b"."
        chunk = odd_send(is_chunk=True)
        java = send(2, 10, 5, 14)
        cut = struct.pack(">HII", 0x0E01, crc32c(struct.pack(">I", 3) + b"xx"), 3) + b"xx"
        for odd in (bytes(bad), long, chunk, java, odd_send(marker=True), send(2, 5, stored=cut)):
            assert self.kinds(turns + odd + turns) == [*found, ("SendRun", 1), *found]

    def test_numbers_of_every_length(self) -> None:
        producers = [0, 127, 128, 16_383, 16_384, 2**56 - 1]
        ids = [0, 127, 128, 129, 16_383, 16_384, 2**35, 2**56 - 1]
        counts = (1, 200, 2**31 - 1)
        rows = [(producer, at, count) for _ in range(3) for at in ids for producer in producers for count in counts]
        stored = [entry(bytes(number * 37 % 200)) for number in range(len(rows))]
        data = b"".join(send(*row, stored=each) for row, each in zip(rows, stored, strict=True))
        first, second, *columnar_sends = RunSplitter().feed_sends(data)
        found: list[tuple[int, int, int]] = []
        for each in columnar_sends:
            assert isinstance(each, ColumnarSends)
            found += zip(each.producer_ids, each.sequence_ids, each.message_counts, strict=True)
        assert found == rows[len(first) + len(second) :]
        assert [len(columnar_sends) for columnar_sends in columnar_sends][:2] == [64, 256]  # more of them as they come

    @pytest.mark.parametrize("at", [(2**56, 1), (3, 2**56), (2**64 - 1, 2**64 - 1)])
    def test_longer_numbers_end_it(self, at: tuple[int, int]) -> None:
        turns = self.turns((1, 1), (2, 1), (1, 1), (2, 1))
        found = [("SendRun", 1), ("SendRun", 1), ("ColumnarSends", 2)]
        assert self.kinds(turns + send(*at) + turns) == [*found, ("SendRun", 1), *found]

    def test_frames_that_are_no_columnar_sends_are_seldom_tried_as_such(self, monkeypatch: pytest.MonkeyPatch) -> None:
        looked_at: list[int] = []

        def counting(buffer: bytes, position: int, max_total: int, least: int, most: int) -> ColumnarSends | None:
            looked_at.append(most)
            return read_columnar_sends(buffer, position, max_total, least, most)

        monkeypatch.setattr("spark_pulsar.wire.sends.columnar_reading.read_columnar_sends", counting)
        data = self.turns(*[(1, 1), (2, 1), (3, STREAK)] * 300)
        splitter = RunSplitter()
        assert sum(len(item) for item in splitter.feed_sends(data)) == 300 * (2 + STREAK)
        assert len(looked_at) < 20
        assert set(looked_at) == {64}


GOOD = send(1, 199)


def flags_of(frame: bytes) -> int:
    """The flags of a SEND between two good ones: one that is not plain is visible, and alone."""
    runs = runs_of(GOOD + frame + GOOD)
    assert [len(run) for run in runs] == [1, 1, 1]
    assert runs[0].flags == runs[2].flags == send_runs.PLAIN
    return runs[1].flags


def flipped(at: int) -> bytes:
    stored = bytearray(entry(b"hello"))
    stored[at] ^= 1
    return bytes(stored)


def checked(body: bytes) -> bytes:
    return b"\x0e\x01" + struct.pack(">I", crc32c(body)) + body


def shadow() -> bytes:
    command = BaseCommand(type=BaseCommand.SEND)
    command.send.producer_id, command.send.sequence_id = 1, 200
    command.send.message_id.ledgerId, command.send.message_id.entryId = 1, 2
    return frames.payload_frame(command, entry())


BODIES = [struct.pack(">I", size) + b"x" for size in (2, 3, 1000, 2**32 - 1)]
ABSENT_TOO = send_runs.METADATA_MALFORMED | send_runs.CHECKSUM_ABSENT
FLAWS: dict[str, list[tuple[bytes, int]]] = {
    "a wrong checksum": [(flipped(at), send_runs.CHECKSUM_WRONG) for at in (2, 6, -1)],
    "no checksum": [(entry(b"x", with_checksum=False), send_runs.CHECKSUM_ABSENT)],
    "metadata that do not fit": [
        *((checked(body), send_runs.METADATA_MALFORMED) for body in BODIES),
        *((body, ABSENT_TOO) for body in BODIES),
    ],
    "an end in the header": [((b"\x0e\x01" + bytes(8))[:size], send_runs.METADATA_MALFORMED) for size in range(2, 10)],
    "too short for anything": [(bytes(size), ABSENT_TOO) for size in (1, 3)],
}


@pytest.mark.parametrize("name", FLAWS)
def test_a_flaw_of_an_entry(name: str) -> None:
    for stored, flags in FLAWS[name]:
        assert flags_of(send(1, 200, stored=stored)) == flags, stored


def test_marker_and_shadow() -> None:
    assert flags_of(odd_send(marker=True)) == send_runs.MARKER
    assert flags_of(shadow()) == send_runs.SHADOW
    assert flags_of(odd_send(entry(b"x", False), marker=True)) == send_runs.MARKER | send_runs.CHECKSUM_ABSENT


@pytest.mark.parametrize(
    "frame",
    # The real broker stores empty metadata; whether to refuse them is not a question of framing.
    [send(1, 200, stored=checked(bytes(4))), odd_send(is_chunk=False, marker=False, highest_sequence_id=5)],
    ids=["empty metadata", "flags that say no"],
)
def test_what_is_plain(frame: bytes) -> None:
    assert runs_of(GOOD + frame)[-1].flags == send_runs.PLAIN


def test_transaction() -> None:
    (run,) = runs_of(odd_send(txnid_most_bits=3, txnid_least_bits=8))
    assert (run.flags, run.transaction) == (send_runs.TRANSACTION, (3, 8))
    (plain,) = runs_of(odd_send(txnid_least_bits=8))
    assert (plain.flags, plain.transaction) == (send_runs.PLAIN, None), "as Apache Pulsar takes it (TX-8)"


def test_chunks_make_a_run() -> None:
    runs = runs_of(GOOD + odd_send(is_chunk=True) + odd_send(is_chunk=True) + GOOD)
    assert [(run.flags, len(run)) for run in runs] == [(send_runs.PLAIN, 1), (send_runs.CHUNK, 2), (send_runs.PLAIN, 1)]


@pytest.mark.parametrize("count", [0, -1, -(2**31)])
def test_a_count_below_one_reads_as_one(count: int) -> None:
    (run,) = runs_of(odd_send(num_messages=count))
    assert run.message_counts == [1]


def test_no_entry_at_all_ends_the_session() -> None:
    # 1.2: a SEND with no bytes after the command closes the connection.
    splitter = RunSplitter()
    assert len(splitter.feed_sends(GOOD + frames.command_frame(requests.send(1, 200)) + GOOD)) == 1
    assert isinstance(splitter.failure, MalformedFrame)
    with pytest.raises(MalformedFrame):
        splitter.feed_sends(b"")


def test_a_bad_one_inside_a_long_run_is_found() -> None:
    plain = [send(1, 200 + i, stored=entry(b"x" * 100)) for i in range(40)]
    plain[20] = plain[20][:-1] + bytes([plain[20][-1] ^ 1])
    runs = runs_of(b"".join(plain))
    assert [(len(run), run.flags) for run in runs] == [(20, 0), (1, send_runs.CHECKSUM_WRONG), (19, 0)]


def framed(command: bytes, stored: bytes) -> bytes:
    return struct.pack(">II", len(command) + 4 + len(stored), len(command)) + command + stored


def test_unusual_encodings_are_read_by_protobuf() -> None:
    swapped, unknown_field = b"\x08\x06\x32\x04\x10\x05\x08\x07", b"\x08\x06\x32\x07\x08\x07\x10\x05\xa0\x06\x01"
    long_number = b"\x08\x06\x32\x06\x08\x87\x80\x00\x10\x05"
    for command in (swapped, unknown_field, long_number):
        (run,) = runs_of(framed(command, entry()))
        assert (run.producer_id, run.sequence_ids, run.flags) == (7, [5], send_runs.PLAIN)


def test_a_send_whose_type_comes_last_is_left_as_a_frame() -> None:
    stored = entry()
    data = framed(b"\x32\x04\x08\x07\x10\x05\x08\x06", stored)
    (item,) = RunSplitter().feed_sends(data)
    assert isinstance(item, Frame)
    parsed, payload_start = frames.parse_command(*item)
    run = run_splitter.send_run(parsed, data, payload_start, item.end)
    assert (run.producer_id, run.sequence_ids, run.flags, stored_in(run)) == (7, [5], send_runs.PLAIN, [stored])
    with pytest.raises(MalformedFrame):
        run_splitter.send_run(parsed, data, item.end, item.end)


@pytest.mark.parametrize(
    "command",
    [
        b"\x08\x06\x32",
        b"\x08\x06\x32\x00",
        b"\x08\x06\x32\x02\x08\x07",
        b"\x08\x06\x32\x04\x08\x07\x10\x85",
        b"\x08\x06\x32\x04\x08\x87\x90\x85",
        b"\x08\x06\x32\x05\x08\x07\x10\x05\x18",
        b"\x08\x06\x32\x06\x08\x07\x10\x05\x30\x80",
        b"\x08\x06\x32\x0d\x08" + b"\xff" * 12,
        b"\x08\x06\x32\xff\x08\x07\x10\x05",
    ],
)
@pytest.mark.parametrize("stored", [b"", entry()])
def test_broken_commands_give_one_typed_error(command: bytes, stored: bytes) -> None:
    with pytest.raises(MalformedFrame):
        RunSplitter().feed_sends(framed(command, stored))


def expected(
    producer_id: int, ledger_id: int, first: int, ids: list[int], highest: list[int] | None = None, step: int = 1
) -> bytes:
    return b"".join(
        frames.command_frame(
            entry_commands.send_receipt(
                producer_id, ids[i], Position(ledger_id, first + i * step), highest[i] if highest is not None else 0
            )
        )
        for i in range(len(ids))
    )


@cases("first_entry", [0, 1, 100, 127, 128, 16_380, 2**21 - 5, 2**40])
@cases("first_id", [0, 90, 127, 128, 16_300, 2**21 - 100, 2**64 - 400])
def test_consecutive(first_entry: int, first_id: int) -> None:
    ids = list(range(first_id, first_id + 300))
    assert receipts(1, 7, first_entry, ids) == expected(1, 7, first_entry, ids)
    assert receipts(1, 7, first_entry, range(first_id, first_id + 300)) == expected(1, 7, first_entry, ids)


def test_highest_sequence_ids_are_echoed() -> None:
    ids, highest = [10, 15, 215], [14, 214, 2**64 - 1]
    assert receipts(1, 7, 126, ids, highest) == expected(1, 7, 126, ids, highest)


def test_dropped_duplicates() -> None:
    # 5.5: ledger and entry 2**64 - 1 for every one of them
    assert receipts(1, -1, -1, [4, 5, 6]) == expected(1, -1, -1, [4, 5, 6], step=0)
    assert receipts(1, -1, -1, [4], [9]) == expected(1, -1, -1, [4], [9], step=0)
