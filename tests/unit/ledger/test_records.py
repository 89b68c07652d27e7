import pytest

from spark_pulsar.ledger.entries import EntryColumns, EntryRun, spans_of
from spark_pulsar.ledger.records import Record, RecordDamaged, UnknownRecord
from spark_pulsar.ledger.state import compaction as kr
from spark_pulsar.ledger.state import damage, schemas
from spark_pulsar.ledger.state import deduplication as sr
from spark_pulsar.ledger.state import documents as dr
from spark_pulsar.ledger.state import topics as tr
from spark_pulsar.ledger.state import transactions as txn
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.apply import RECORD_TYPES, decode_record
from spark_pulsar.ledger.state.cursors import records as cr
from spark_pulsar.ledger.state.cursors.records import CursorIdle
from spark_pulsar.ledger.state.delays import DelaysElapsed, EntriesDelayed
from spark_pulsar.ledger.state.documents import NamespaceDeleted, NamespaceSet
from spark_pulsar.ledger.state.durable_state import CounterSet
from spark_pulsar.ledger.state.ledgers import EntriesDropped, LedgerOpened, LedgerSealed, LedgersTrimmed
from spark_pulsar.ledger.state.topics import (
    PartitionedTopicDeleted,
    PartitionedTopicSet,
    TopicCreated,
    TopicDeleted,
    TopicPropertiesSet,
)
from spark_pulsar.model.positions.singles import Singles
from tests import without_numpy
from tests.entry_runs import run_of

both_ways = without_numpy.both_ways

EXAMPLES: list[Record] = [
    EntriesAppended(run_of(3, 0, [b"x"])),
    EntriesAppended(run_of(3, 9, [b"x", b"", b"yy"], [1, 5, 1])),
    EntriesAppended(EntryRun(3, 9, b"...x", [3], [4], [7])),
    EntriesAppended(EntryColumns(b"..abc", [7, 2**40, 7], [0, 9, 1], [2, 3, 4], [3, 4, 5])),
    EntriesAppended(EntryColumns(b"ab", [7, 8], [0, 0], [0, 1], [1, 2], [1, 3])),
    CounterSet("names", 2**40),
    CursorIdle(3, 1_700_000_000_000),
    TopicCreated(1, "persistent://a/b/ü", 1_700_000_000_000, {"k": "v", "": "w"}),
    TopicDeleted(1),
    TopicPropertiesSet(1, {}),
    PartitionedTopicSet("persistent://a/b/c", 4, {"x": "y"}),
    PartitionedTopicDeleted("persistent://a/b/c"),
    NamespaceSet("a/b", '{"retention": {}}'),
    NamespaceDeleted("a/b"),
    LedgerOpened(1, 2, 3),
    LedgerSealed(1, 2, 3),
    LedgersTrimmed(1, (2, 3, 2**50)),
    LedgersTrimmed(1, ()),
    EntriesDropped(1, 2, 30),
    cr.CursorCreated(1, 2, "sub", -1, -1, 5, {"p": "q"}),
    cr.CursorDeleted(1),
    cr.CursorAcked(1, [(1, 0, 5)]),
    cr.CursorAcked(1, [(1, 0, 5), (2, 7, 9)], []),
    cr.CursorAcked(1, Singles(2, [7, 9, 2**40])),
    cr.CursorAcked(1, Singles(2, [7, 9]), [(1, 2, 0)]),
    cr.CursorAcked(1, [], [(1, 2, 0), (1, 3, 1 << 200 | 5)]),
    cr.CursorMarkDeleted(1, 2, -1),
    cr.CursorReset(1, -1, -1),
    cr.CursorRedelivered(1, [(1, 0, 5), (1, 7, 8)]),
    cr.CursorPropertiesSet(1, {"a": "b"}),
    cr.CursorAckProperties(1, {"a": "-7"}),
    dr.DocumentSet(dr.TENANTS, "ü", '{"a": []}'),
    dr.DocumentDeleted(dr.CLUSTERS, "c"),
    sr.SequencesReached((7,), ("ü",), (-(2**63),)),
    sr.SequencesReached((7, 2**40), ("p", ""), (0, 2**63 - 1)),
    sr.SequencesForgotten(7, ()),
    sr.SequencesForgotten(7, ("p", "ü")),
    kr.CompactionPrepared(1, -1, -1),
    kr.CompactionBegun(1, 2, 3),
    kr.CompactionFinished(1, 2, 5, 6, 7, 8, (5, 6, -1), (1, 0, 0, 5, 6, 2**40)),
    kr.CompactionAbandoned(1),
    kr.CompactionForgotten(1),
    damage.TopicDamaged(1, 2, 3, 5, "journal/1.journal:77", "a group fails its checksum"),
    damage.DamageAccepted(1),
    schemas.SchemaAdded("a/b/ü", 0, 4, 1_700_000_000_000, b"{}\0", {"k": "v"}),
    schemas.SchemaAdded("a/b/ü", 1, -1, 0, b""),
    schemas.SchemasDeleted("a/b/ü", 2, 3),
    schemas.SchemasForgotten("a/b/ü"),
    tr.TopicEpochSet(1, 2**62),
    EntriesDelayed(7, (1, 2, 2**40), (-1, 0, 2**62)),
    DelaysElapsed(7, 2, 2**62),
    tr.TopicTerminated(1),
    tr.TopicChunked(1),
    txn.TransactionOpened(15, 2**62, 1_700_000_000_000, 60_000, "role"),
    txn.TransactionPartitionsAdded(0, 1, ("orders", "persistent://a/b/ü")),
    txn.TransactionSubscriptionsAdded(0, 1, ("orders", "orders"), ("s", "ü")),
    txn.TransactionEntries(0, 1, 7, 0, 2**40),
    txn.TransactionAcked(0, 1, 3, [(7, 0, 2), (8, 4, 5)], [(8, 5, 2**65 | 2)]),
    txn.TransactionAcked(0, 1, 3, [(7, 0, 2)]),
    txn.TransactionAckedThrough(0, 1, 3, 7, -1),
    txn.TransactionEnded(0, 1, 1, (7, 9), (3, 2**40)),
]


def facts(run: EntryRun) -> tuple[int, int, list[bytes], int]:
    entries = [run.entry(entry_id) for entry_id in range(run.first_entry_id, run.end_entry_id)]
    return run.ledger_id, run.first_entry_id, entries, run.messages


OLD_FORMS: list[tuple[int, str, Record]] = [
    (1, "03000000000000000000000000000000 01000000 00000000 01000000 01 00000000 01000000 78", EXAMPLES[0]),
    (
        1,
        "03000000000000000900000000000000 03000000 00000000 03000000 00"
        "000000000100000001000000 010000000100000003000000 010000000500000001000000 787979",
        EXAMPLES[1],
    ),
    (1, "03000000000000000900000000000000 01000000 03000000 01000000 00 03000000 04000000 07000000 78", EXAMPLES[2]),
    (
        3,
        "03000000 02000000 03000000 01 070000000000000000000000000100000700000000000000"
        "000000000000000009000000000000000100000000000000 020000000300000004000000 030000000400000005000000 616263",
        EXAMPLES[3],
    ),
    (
        3,
        "02000000 00000000 02000000 00 07000000000000000800000000000000 00000000000000000000000000000000"
        "0000000001000000 0100000002000000 0100000003000000 6162",
        EXAMPLES[4],
    ),
    (
        3,
        "01000000 01000000 02000000 01 0700000000000000 0400000000000000 01000000 03000000 6162",
        EntriesAppended(run_of(7, 4, [b"ab"])),
    ),
    (
        3,
        "01000000 01000000 02000000 00 0700000000000000 0400000000000000 01000000 03000000 02000000 6162",
        EntriesAppended(run_of(7, 4, [b"ab"], [2])),
    ),
]
"""Records of entries as version 1 was written: type, body, and the record of today."""


def test_every_type_has_an_example_and_a_number_of_its_own() -> None:
    assert {type(example) for example in EXAMPLES} == set(RECORD_TYPES.values())
    assert len(RECORD_TYPES) == len({known.TYPE for known in RECORD_TYPES.values()})


@pytest.mark.parametrize("record", EXAMPLES, ids=repr)
def test_a_record_comes_back_from_its_bytes(record: Record) -> None:
    body = record.encode()
    for before, after in ((b"", b""), (b"before", b"after")):
        data = before + body + after
        back = decode_record(record.TYPE, record.VERSION, data, len(before), len(before) + len(body))
        assert type(back) is type(record)
        if isinstance(record, EntriesAppended) and isinstance(back, EntriesAppended):
            assert repr(back) == repr(record)
            assert list(map(facts, back.entries.runs())) == list(map(facts, record.entries.runs()))
            extents = EntriesAppended.extents_of(record.TYPE, record.VERSION, data, len(before))
            assert list(spans_of(extents)) == list(spans_of(record.entries.extents()))
        else:
            assert back == record


@pytest.mark.parametrize("record", EXAMPLES, ids=repr)
def test_a_body_of_the_wrong_length_is_damaged(record: Record) -> None:
    body = record.encode()
    for damaged in [*(body[:cut] for cut in range(len(body))), body + b"\0"]:
        with pytest.raises(RecordDamaged):
            decode_record(record.TYPE, record.VERSION, damaged, 0, len(damaged))


@pytest.mark.parametrize(("record_type", "text", "today"), OLD_FORMS)
def test_old_forms_of_appended_entries_are_read(record_type: int, text: str, today: Record) -> None:
    body = bytes.fromhex(text)
    data = b"before" + body + b"after"
    back = decode_record(record_type, 1, data, 6, 6 + len(body))
    assert isinstance(back, EntriesAppended)
    assert isinstance(today, EntriesAppended)
    assert repr(back) == repr(today)
    assert list(map(facts, back.entries.runs())) == list(map(facts, today.entries.runs()))
    extents = EntriesAppended.extents_of(record_type, 1, data, 6)
    assert list(spans_of(extents)) == list(spans_of(today.entries.extents()))
    for damaged in [*(body[:cut] for cut in range(len(body))), body + b"\0"]:
        with pytest.raises(RecordDamaged):
            decode_record(record_type, 1, damaged, 0, len(damaged))


def test_types_and_versions_of_newer_programs_are_named() -> None:
    with pytest.raises(UnknownRecord, match="type 255"):
        decode_record(255, 1, b"", 0, 0)
    with pytest.raises(UnknownRecord, match="TopicDeleted version 2"):
        decode_record(TopicDeleted.TYPE, 2, bytes(8), 0, 8)


def test_offsets_outside_the_region_are_damage() -> None:
    body = bytearray(EntriesAppended(run_of(3, 9, [b"x", b"yy"])).encode())
    at = 29 + 4 * 3
    body[at : at + 4] = (2**31).to_bytes(4, "little")
    with pytest.raises(RecordDamaged, match="outside"):
        decode_record(1, 2, bytes(body), 0, len(body))


def test_text_that_is_no_utf8_is_damage() -> None:
    body = NamespaceDeleted("abcd").encode().replace(b"bc", b"\xff\xff")
    with pytest.raises(RecordDamaged, match="UTF-8"):
        decode_record(NamespaceDeleted.TYPE, 1, body, 0, len(body))


def test_a_region_that_is_most_of_its_buffer_is_not_copied() -> None:
    run = run_of(1, 0, [b"x" * 1000])
    assert EntriesAppended(run).encode_parts()[1] is run.buffer
    wide = EntryRun(1, 0, b"." * 1000 + b"x", [1000], [1001])
    assert EntriesAppended(wide).encode_parts()[1] == b"x"
