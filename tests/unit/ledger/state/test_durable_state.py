import pytest

from spark_pulsar.ledger.records import InvalidRecord, Record, RecordDamaged
from spark_pulsar.ledger.state import compaction as kr
from spark_pulsar.ledger.state import deduplication as sr
from spark_pulsar.ledger.state import documents as dr
from spark_pulsar.ledger.state import transactions as txn
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.apply import apply as apply_one
from spark_pulsar.ledger.state.cursors import records as cr
from spark_pulsar.ledger.state.damage import TopicDamaged
from spark_pulsar.ledger.state.delays import EntriesDelayed
from spark_pulsar.ledger.state.documents import NamespaceDeleted, NamespaceSet
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.state.ledgers import EntriesDropped, LedgerOpened, LedgerSealed, LedgersTrimmed
from spark_pulsar.ledger.state.schemas import SchemaAdded, SchemasDeleted, SchemasForgotten
from spark_pulsar.ledger.state.snapshot import TABLES, Row, load_rows, pop_dirty_rows
from spark_pulsar.ledger.state.topics import (
    PartitionedTopicDeleted,
    PartitionedTopicSet,
    TopicCreated,
    TopicDeleted,
    TopicEpochSet,
    TopicPropertiesSet,
)
from spark_pulsar.model.positions.ids import EARLIEST, Position
from tests.contract.histories import picture
from tests.entry_runs import run_of

TOPIC = "persistent://public/default/t"


def apply(state: DurableState, *records: Record) -> DurableState:
    for record in records:
        apply_one(state, record)
    return state


@pytest.fixture
def state() -> DurableState:
    """One topic with ledger 1 of three entries and cursor 1 at the beginning."""
    return apply(
        DurableState(),
        TopicCreated(1, TOPIC, 5, {}),
        LedgerOpened(1, 1, 6),
        EntriesAppended(run_of(1, 0, [b"a", b"bb", b"ccc"], [1, 2, 3])),
        cr.CursorCreated(1, 1, "sub", -1, -1, 7, {"k": "v"}),
    )


@pytest.mark.parametrize(
    "record",
    [
        EntriesAppended(run_of(1, 4, [b"gap"])),
        EntriesAppended(run_of(1, 2, [b"again"])),
        EntriesAppended(run_of(9, 0, [b"nowhere"])),
        TopicCreated(2, TOPIC, 5, {}),
        TopicCreated(1, "persistent://public/default/other", 5, {}),
        TopicDeleted(1),
        TopicDeleted(7),
        TopicPropertiesSet(7, {}),
        LedgerOpened(1, 2, 6),
        LedgerSealed(1, 2, 6),
        LedgersTrimmed(1, (2,)),
        EntriesDropped(1, 2, 3),
        PartitionedTopicDeleted("x"),
        NamespaceDeleted("x"),
        cr.CursorCreated(2, 1, "sub", -1, -1, 7, {}),
        cr.CursorCreated(1, 1, "other", -1, -1, 7, {}),
        cr.CursorDeleted(2),
        cr.CursorAcked(2, [(1, 0, 1)]),
        cr.CursorMarkDeleted(2, 1, 0),
    ],
    ids=repr,
)
def test_a_record_that_does_not_fit_changes_nothing(state: DurableState, record: Record) -> None:
    before = picture(state)
    with pytest.raises(InvalidRecord):
        apply(state, record)
    assert picture(state) == before


def test_rolling(state: DurableState) -> None:
    # covers ML-1
    apply(state, *state.records_to_open_ledger(1, 50))
    ledger = state.topics[1].ledger
    assert list(ledger.ledgers) == [1, 2]
    assert (ledger.ledgers[1].sealed_ms, ledger.ledgers[2].base) == (50, 3)
    apply(state, *state.records_to_open_ledger(1, 60))
    assert list(ledger.ledgers) == [1, 3], "an empty ledger vanishes"
    assert 2 not in state.ledgers


def test_trimming_takes_cursors_along(state: DurableState) -> None:
    apply(state, *state.records_to_open_ledger(1, 50), EntriesAppended(run_of(2, 0, [b"d", b"e"])))
    apply(state, cr.CursorAcked(1, [(2, 0, 1)]), LedgersTrimmed(1, (1,)))
    cursor = state.cursors[1]
    assert cursor.mark_delete == Position(2, 0)
    assert cursor.backlog() == 1
    assert state.topics[1].ledger.first_position == Position(2, 0)


def test_what_must_be_kept_when_settling(state: DurableState) -> None:
    # covers TRIM-2, TRIM-4
    apply(state, cr.CursorMarkDeleted(1, 1, 2))
    assert state.first_needed_entry(1) == 0, "what the only subscription has acknowledged of an open ledger"
    apply(state, *state.records_to_open_ledger(1, 50), EntriesAppended(run_of(2, 0, [b"d", b"e"])))
    apply(state, cr.CursorCreated(2, 1, "late", 1, 2, 7, {}), cr.CursorMarkDeleted(1, 2, 0))
    assert state.first_needed_entry(1) == 0, "a closed ledger that one subscription has not left"
    apply(state, cr.CursorMarkDeleted(2, 2, 0))
    assert state.first_needed_entry(1) == 3, "it is about to be trimmed"
    assert state.first_needed_entry(2) == 0
    apply(state, cr.CursorDeleted(1), cr.CursorDeleted(2))
    assert state.first_needed_entry(1) == 0, "without a durable cursor everything stays"
    apply(state, EntriesDropped(1, 1, 2))
    assert state.first_needed_entry(1) == 2
    assert state.first_needed_entry(9) is None


def test_recovered_ledgers_take_no_more(state: DurableState) -> None:
    # covers ML-1
    assert state.topics[1].ledger.appendable
    state.finish_recovery()
    assert not state.topics[1].ledger.appendable


def test_only_what_changed_is_handed_out(state: DurableState) -> None:
    pop_dirty_rows(state)
    assert pop_dirty_rows(state) == []
    apply(state, cr.CursorAcked(1, [(1, 1, 2)]))
    assert {(row.table, row.key) for row in pop_dirty_rows(state)} == {("cursors", (1,)), ("cursor_blocks", (1, 1, 0))}
    apply(state, cr.CursorAcked(1, [(1, 0, 1)]))
    rows = {(row.table, row.key): row.values for row in pop_dirty_rows(state)}
    assert rows["cursor_blocks", (1, 1, 0)] is None
    apply(state, cr.CursorAcked(1, [(1, 2, 3)]), cr.CursorDeleted(1))
    assert Row("cursors", (1,), None) in pop_dirty_rows(state)


def test_of_a_cursor_with_many_holes_only_the_changed_blocks_are_handed_out() -> None:
    # covers CUR-5
    state = apply(
        DurableState(),
        TopicCreated(1, TOPIC, 5, {}),
        LedgerOpened(1, 1, 6),
        EntriesAppended(run_of(1, 0, [b"x"] * 20_000)),
        cr.CursorCreated(1, 1, "sub", -1, -1, 7, {}),
        cr.CursorAcked(1, [(1, entry_id, entry_id + 1) for entry_id in range(1, 20_000, 2)]),
    )

    def blocks() -> set[int]:
        return {row.key[2] for row in pop_dirty_rows(state) if row.table == "cursor_blocks"}

    assert blocks() == {0, 1, 2, 3, 4}
    apply(state, cr.CursorAcked(1, [(1, 5_000, 5_001)]))
    assert blocks() == {1}
    apply(state, cr.CursorAcked(1, [], [(1, 9_000, 5)]), cr.CursorRedelivered(1, [(1, 12_000, 12_010)]))
    assert blocks() == {2}, "9,000 and 12,000 lie in one block"
    apply(state, cr.CursorAcked(1, [(1, 4_096, 8_190)]))
    assert blocks() == {0, 1}, "what is joined belongs to where it begins now"
    apply(state, cr.CursorMarkDeleted(1, 1, 8_500))
    assert blocks() == {0, 1, 2}
    apply(state, cr.CursorReset(1, 1, -1))
    assert blocks() == {2, 3, 4}
    assert blocks() == set()


def test_rows_have_the_columns_of_their_tables(state: DurableState) -> None:
    apply(
        state,
        PartitionedTopicSet("p", 3, {}),
        NamespaceSet("a/b", "{}"),
        dr.DocumentSet(dr.TENANTS, "a", "{}"),
        sr.SequencesReached([1], ["p"], [3]),
        kr.CompactionPrepared(1, -1, -1),
        cr.CursorAcked(1, [(1, 1, 2)], [(1, 2, 5)]),
        TopicDamaged(1, 1, 0, 1, "file:1", "text"),
        TopicEpochSet(1, 0),
        EntriesDelayed(1, (0,), (9,)),
        SchemaAdded("a/b/c", 0, 4, 1, b"{}"),
        txn.TransactionOpened(0, 0, 1, 2, ""),
        txn.TransactionEnded(0, 0, 1, (1,), (0,)),
        txn.TransactionOpened(0, 1, 1, 2, ""),
        txn.TransactionEntries(0, 1, 1, 0, 1),
        txn.TransactionAcked(0, 1, 1, [(1, 3, 4)]),
    )
    state.dirty["transactions"].discard((0, 0))
    tables = {table.name: table for table in TABLES}
    seen = set()
    for row in pop_dirty_rows(state):
        seen.add(row.table)
        assert len(row.key) == tables[row.table].keys
        assert row.values is not None
        assert len(row.key) + len(row.values) == len(tables[row.table].columns)
    assert seen == set(tables)


def test_rows_that_do_not_fit_are_damage() -> None:
    with pytest.raises(RecordDamaged):
        load_rows({"topics": [(1, "x")]})
    with pytest.raises(RecordDamaged):
        load_rows({"cursor_blocks": [(1, 1, 0, b"12345678", b"", b"")]})
    with pytest.raises(RecordDamaged):
        load_rows({"topics": [(1, "x", 5, "no json", 0, -1, -1)]})


def test_a_compacted_ledger_is_beside_the_chain_and_replaces_the_one_before(state: DurableState) -> None:
    # covers CMP-C4
    chain = list(state.topics[1].ledger.ledger_ids())
    apply(state, kr.CompactionPrepared(1, 1, 0), kr.CompactionBegun(1, 5, 100))
    apply(state, EntriesAppended(run_of(5, 0, [b"a", b"b"])), kr.CompactionFinished(1, 5, 1, 1, 200, 3, (1, 1, -1), ()))
    apply(state, kr.CompactionBegun(1, 6, 300))
    assert state.topics[1].ledger.ledger_ids() == chain
    assert {5, 6} <= state.ledgers.keys()
    assert state.first_needed_entry(5) == 0, "it is never consumed"
    with pytest.raises(InvalidRecord):
        apply(state, kr.CompactionBegun(1, 7, 300))
    apply(state, kr.CompactionFinished(1, 6, 1, 2, 400, 0, (-1, -1, -1), ()))
    assert 5 not in state.ledgers
    apply(state, kr.CompactionBegun(1, 7, 500), kr.CompactionAbandoned(1))
    assert {6, 7} & state.ledgers.keys() == {6}
    apply(state, *state.records_to_delete_topic(1))
    assert state.ledgers.keys() == set()


def test_what_is_not_compacted_yet_is_held(state: DurableState) -> None:
    # covers CMP-C4
    topic = state.topics[1]
    apply(state, kr.CompactionPrepared(1, *EARLIEST))
    assert topic.slowest_mark_delete() == EARLIEST
    apply(state, kr.CompactionBegun(1, 5, 100), kr.CompactionFinished(1, 5, 9, 9, 200, 0, (-1, -1, -1), ()))
    assert topic.slowest_mark_delete() == topic.cursors["sub"].mark_delete


def test_versions_of_schemas_rise_until_they_are_forgotten(state: DurableState) -> None:
    # covers SC-1, SC-10
    apply(state, SchemaAdded("a/b/c", 0, 4, 1, b"x"), SchemaAdded("a/b/c", 1, 4, 2, b"y"))
    assert [each.version for each in state.schemas["a/b/c"]] == [0, 1]
    for wrong in (1, 3):
        with pytest.raises(InvalidRecord):
            apply(state, SchemaAdded("a/b/c", wrong, 4, 3, b""))
    apply(state, SchemasDeleted("a/b/c", 2, 5), SchemaAdded("a/b/c", 3, 1, 6, b""))
    assert [(each.version, each.is_deleted) for each in state.schemas["a/b/c"]] == [(2, True), (3, False)]
    apply(state, SchemasForgotten("a/b/c"), SchemasForgotten("a/b/c"))
    assert not state.schemas
    apply(state, SchemasDeleted("a/b/c", 0, 7))
    assert [each.version for each in state.schemas["a/b/c"]] == [0]


def test_a_schema_of_an_unknown_type_is_refused_and_changes_nothing(state: DurableState) -> None:
    with pytest.raises(InvalidRecord):
        apply(state, SchemaAdded("a/b/c", 0, 99, 1, b"x"))
    assert not state.schemas


def test_what_came_with_the_last_cumulative_ack_is_kept_beside_the_properties(state: DurableState) -> None:
    # covers ACK-5, CUR-19
    apply(state, cr.CursorAckProperties(1, {"a": "-7"}))
    tables: dict[str, list[tuple[object, ...]]] = {}
    for row in pop_dirty_rows(state):
        tables.setdefault(row.table, []).append((*row.key, *(row.values or ())))
    cursor = load_rows(tables).cursors[1]
    assert (cursor.properties, cursor.ack_properties) == ({"k": "v"}, {"a": "-7"})
    apply(state, cr.CursorReset(1, -1, -1))
    assert (state.cursors[1].properties, state.cursors[1].ack_properties) == ({"k": "v"}, None)
