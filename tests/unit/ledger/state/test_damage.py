import pytest

from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.cursors.cursor import Cursor
from spark_pulsar.ledger.state.cursors.records import CursorCreated, CursorReset
from spark_pulsar.ledger.state.damage import Damage, DamageAccepted, TopicDamaged
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.state.ledgers import LedgerOpened, LedgerSealed, LedgersTrimmed
from spark_pulsar.ledger.state.topics import TopicCreated
from spark_pulsar.model.positions.ids import Position
from tests.entry_runs import run_of

LOST = TopicDamaged(1, 1, 3, 6, "journal/1:99", "a group fails its checksum")


@pytest.fixture
def state() -> DurableState:
    """A topic with ten entries in ledger 1, consumed by "sub" up to the third."""
    made = DurableState()
    apply(made, TopicCreated(1, "persistent://public/default/t", 1, {}))
    apply(made, LedgerOpened(1, 1, 1))
    apply(made, EntriesAppended(run_of(1, 0, [b"x"] * 10)))
    apply(made, CursorCreated(1, 1, "sub", 1, 1, 1, {}))
    return made


def test_damage_is_noted_once_and_says_where_it_is(state: DurableState) -> None:
    apply(state, LOST)
    apply(state, TopicDamaged(1, 1, 3, 6, "elsewhere", "the same, found again"))
    topic = state.topics[1]
    assert topic.damages == [Damage(1, 3, 6, "journal/1:99", "a group fails its checksum")]
    assert topic.damage is not None
    assert str(topic.damage) == "entries 1:3 to 1:5 are lost (journal/1:99: a group fails its checksum)"
    assert [topic.damage.holds(1, entry_id) for entry_id in (2, 3, 5, 6)] == [False, True, True, False]
    assert not topic.damage.holds(2, 4)
    # Until it is accepted, cursors stop at it.
    assert topic.cursors["sub"].unacked(Position(1, 0), Position(1, 9), 100) == [(1, 2, 10)]


def test_every_cursor_passes_over_what_was_accepted(state: DurableState) -> None:
    apply(state, LOST)
    apply(state, DamageAccepted(1))
    topic = state.topics[1]
    assert topic.damage is None
    known = topic.cursors["sub"]
    apply(state, CursorCreated(2, 1, "later", -1, -1, 1, {}))
    reader = Cursor(topic.ledger, "reader", Position(-1, -1))
    for cursor, first in ((known, 2), (topic.cursors["later"], 0), (reader, 0)):
        assert cursor.unacked(Position(1, 0), Position(1, 9), 100) == [(1, first, 3), (1, 6, 10)]
        assert cursor.backlog() == 7 - first
    apply(state, CursorReset(1, -1, -1))
    assert known.backlog() == 7


def test_what_is_lost_goes_with_its_ledger(state: DurableState) -> None:
    apply(state, LOST)
    apply(state, DamageAccepted(1))
    apply(state, TopicDamaged(1, -1, 0, 0, "journal/1:200", "its last changes"))
    apply(state, LedgerSealed(1, 1, 9))
    apply(state, LedgersTrimmed(1, (1,)))
    assert [damage.place for damage in state.topics[1].damages] == ["journal/1:200"]
    assert state.topics[1].ledger.lost == []
