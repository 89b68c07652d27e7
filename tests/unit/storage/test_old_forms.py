"""Journals with the records of entries that older programs wrote: replayed, read, settled and checked."""

import struct
from pathlib import Path

import pytest

from spark_pulsar.ledger.entries import EntryColumns
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.topics import TopicCreated
from spark_pulsar.storage.offline.check import check
from tests.contract.storages import FileWorld
from tests.entry_runs import run_of

ENTRIES = 60


class OldRun(EntriesAppended):
    """A run as type 1 version 1: ledger id and first entry id stood first."""

    VERSION = 1

    def encode_parts(self) -> tuple[bytes, bytes]:
        head, region = super().encode_parts()
        number, base, size, flags, ledger_id, first = struct.unpack_from("<IIIBQQ", head)
        return struct.pack("<QQIIIB", ledger_id, first, number, base, size, flags & 1) + head[29:], region


class OldColumns(EntriesAppended):
    """Entries of many ledgers as type 3 version 1."""

    TYPE = 3
    VERSION = 1


def entry(ledger_id: int, entry_id: int) -> bytes:
    return b"%d:%d/" % (ledger_id, entry_id) + b"." * (entry_id * 37 % 3000)


@pytest.mark.parametrize("counts", [None, [1, 3, 1, 2]])
def test_old_forms_are_replayed_read_and_settled(tmp_path: Path, counts: list[int] | None) -> None:
    world = FileWorld(tmp_path)
    for topic_id in (1, 2):
        world.apply_and_submit(TopicCreated(topic_id, f"persistent://public/default/{topic_id}", 1, {}))
        world.apply_and_submit(*world.state.records_to_open_ledger(topic_id, 2))
    expected = {(ledger_id, number): entry(ledger_id, number) for ledger_id in (1, 2) for number in range(ENTRIES)}
    for first in range(0, ENTRIES, 6):
        for ledger_id in (1, 2):
            parts = [entry(ledger_id, first + index) for index in range(4)]
            run = run_of(ledger_id, first, parts, counts)
            apply(world.state, EntriesAppended(run))
            world.submit([OldRun(run)])
        places = [(ledger_id, first + index) for index in (4, 5) for ledger_id in (1, 2)]
        joined = run_of(0, 0, [entry(*place) for place in places])
        ledger_ids, entry_ids = zip(*places, strict=True)
        columns = EntryColumns(joined.buffer, ledger_ids, entry_ids, joined.starts, joined.ends, counts)
        apply(world.state, EntriesAppended(columns))
        world.submit([OldColumns(columns)])

    def found() -> dict[tuple[int, int], bytes]:
        return {(each, number): data for each in (1, 2) for number, data in world.read_all(each).items()}

    world.kill()
    assert check(world.data_dir) == []
    world.open()
    assert found() == expected
    assert [*world.storage.sizes(1, 0, ENTRIES)] == [len(entry(1, number)) for number in range(ENTRIES)]
    world.checkpoint()
    assert list((world.data_dir / "ledgers").iterdir())
    assert found() == expected
    world.kill()
    world.open()
    assert found() == expected
    assert set(world.counts.values()) == set(counts or [1])
    world.dispose()
