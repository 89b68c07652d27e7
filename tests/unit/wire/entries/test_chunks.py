"""Chunked messages: cutting as official clients do, reassembly within bounds. Covers CHK-1, CHK-5, CHK-7."""

from typing import Any

import pytest

from spark_pulsar.model import limits
from spark_pulsar.model.errors import NotAllowed
from spark_pulsar.wire.entries.chunks import ChunkAssembler, Loss, split
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata


def metadata(name: str = "pp", sequence_id: int = 0, **fields: object) -> MessageMetadata:
    return MessageMetadata(producer_name=name, sequence_id=sequence_id, publish_time=1_700_000_000_000, **fields)  # type: ignore[arg-type]


def chunk(uuid: str, chunk_id: int, count: int, total: int) -> MessageMetadata:
    return metadata(uuid=uuid, chunk_id=chunk_id, num_chunks_from_msg=count, total_chunk_msg_size=total)


class Reader:
    """An assembler that is fed one byte a chunk, and notes what came of it."""

    def __init__(self, **bounds: int) -> None:
        self.assembler: ChunkAssembler[int] = ChunkAssembler(**bounds)
        self.messages: list[bytes] = []
        self.lost: list[tuple[str, list[int], Loss]] = []
        self.position = 0

    def add(self, uuid: str, chunk_id: int, count: int = 3, total: int | None = None) -> None:
        of = chunk(uuid, chunk_id, count, count if total is None else total)
        done = self.assembler.add(of, bytes([chunk_id]), self.position)
        if done is not None:
            self.messages.append(done.payload)
        self.lost += [(lost.uuid, lost.positions, lost.reason) for lost in self.assembler.pop_lost()]
        self.position += 1


class TestSplit:
    def test_as_the_official_client_cuts(self) -> None:
        # max_message_size 1000, 2500 bytes, producer pp
        parts = list(split(metadata(), bytes(2500), 1000))
        assert [len(payload) for _, payload in parts] == [987, 987, 526]
        assert [part.ByteSize() for part, _ in parts] == [30, 30, 30]
        assert {part.uuid for part, _ in parts} == {"pp-0"}
        assert {part.sequence_id for part, _ in parts} == {0}
        assert [part.chunk_id for part, _ in parts] == [0, 1, 2]
        assert {(part.num_chunks_from_msg, part.total_chunk_msg_size) for part, _ in parts} == {(3, 2500)}

    @pytest.mark.parametrize("size", [0, 1, 987])
    def test_what_fits_stays_whole(self, size: int) -> None:
        original = metadata()
        ((part, payload),) = split(original, bytes(size), 1000)
        assert part is original
        assert not part.HasField("uuid")
        assert len(payload) == size

    def test_one_byte_more_makes_two(self) -> None:
        assert [len(payload) for _, payload in split(metadata(), bytes(988), 1000)] == [987, 1]

    def test_other_metadata_go_with_every_chunk(self) -> None:
        original = metadata(partition_key="k", compression=1, uncompressed_size=9000)
        for part, _ in split(original, bytes(2500), 1000):
            assert (part.partition_key, part.compression, part.uncompressed_size) == ("k", 1, 9000)

    def test_metadata_that_fill_an_entry(self) -> None:
        with pytest.raises(NotAllowed):
            list(split(metadata(partition_key="k" * 2000), b"x", 1000))

    def test_too_many_chunks(self) -> None:
        with pytest.raises(NotAllowed):
            list(split(metadata(), bytes(limits.MAX_CHUNKS_PER_MESSAGE + 1), 14))
        assert sum(1 for _ in split(metadata(), bytes(limits.MAX_CHUNKS_PER_MESSAGE), 14)) == 65_536


class TestAssemble:
    @pytest.mark.parametrize(
        ("chunks", "messages", "lost"),
        [
            # covers CHK-7: interleaved
            ([("a", 0), ("b", 0), ("b", 1), ("a", 1), ("a", 2), ("b", 2)], 2, []),
            # covers CHK-5: a first chunk that comes again starts anew
            ([("a", 0), ("a", 1), ("a", 0), ("a", 1), ("a", 2)], 1, [("a", [0, 1], Loss.REPEATED)]),
            # A later one that comes again is dropped.
            ([("a", 0), ("a", 1), ("a", 1), ("a", 2)], 1, [("a", [2], Loss.REPEATED)]),
            # A gap ends the message.
            ([("a", 0), ("a", 2), ("a", 1)], 0, [("a", [0, 1], Loss.CORRUPT), ("a", [2], Loss.ORPHAN)]),
            ([("a", 1)], 0, [("a", [0], Loss.ORPHAN)]),
            # Numbers that contradict, and a sum that is not what was said.
            ([("a", 0), ("a", 1, 4, 3)], 0, [("a", [0, 1], Loss.CORRUPT)]),
            ([("a", 0), ("a", 1, 3, 4)], 0, [("a", [0, 1], Loss.CORRUPT)]),
            *(
                ([("a", number, 3, total) for number in range(3)], 0, [("a", [0, 1, 2], Loss.CORRUPT)])
                for total in (2, 4)
            ),
            # Bounds of one message.
            *(
                ([("a", 0, *bounds)], 0, [("a", [0], Loss.TOO_LARGE)])
                for bounds in ((0, 3), (-1, 3), (65_537, 3), (3, -1), (3, 1001))
            ),
        ],
    )
    def test_what_comes_of_chunks(self, chunks: list[Any], messages: int, lost: list[Any]) -> None:
        reader = Reader(max_message_size_bytes=1000)
        for each in chunks:
            reader.add(*each)
        assert (reader.messages, reader.lost) == ([b"\x00\x01\x02"] * messages, lost)
        assert (len(reader.assembler), reader.assembler.pending_bytes) == (0, 0)

    def test_negative_chunk_number(self) -> None:
        reader = Reader()
        reader.add("a", 0)
        assert reader.assembler.add(chunk("a", -1, 3, 3), b"x", 1) is None
        assert [lost.reason for lost in reader.assembler.pop_lost()] == [Loss.CORRUPT]

    def test_the_oldest_goes_when_there_are_too_many(self) -> None:
        # covers CHK-5: 11 unfinished messages with limit 10
        reader = Reader(max_messages=10)
        for number in range(11):
            reader.add(f"m{number}", 0)
        assert reader.lost == [("m0", [0], Loss.CROWDED_OUT)]
        for chunk_id in (1, 2):
            for number in range(1, 11):
                reader.add(f"m{number}", chunk_id)
        assert len(reader.messages) == 10

    def test_the_oldest_goes_when_there_are_too_many_bytes(self) -> None:
        reader = Reader(max_pending_bytes=3)
        for uuid in "abcd":
            reader.add(uuid, 0)
        assert reader.lost == [("a", [0], Loss.CROWDED_OUT)]
        assert reader.assembler.pending_bytes == 3
