"""Trimming beside a model that says, ledger by ledger, what still protects it; sizes beside plain sums."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.ledger.managed_ledgers.ledger import LedgerInfo
from spark_pulsar.ledger.managed_ledgers.managed_ledger import ManagedLedger
from spark_pulsar.ledger.managed_ledgers.trimming import plan_trimming
from spark_pulsar.model.policies.effective_policies import RetentionPolicy
from spark_pulsar.model.positions.ids import EARLIEST, Position

MIB = 1024 * 1024
NOW_MS = 100 * 60_000

limits = st.sampled_from([(0, 0), (-1, -1), (-1, 2), (5, -1), (5, 2), (1, 1), (0, 3), (3, 0)])


@st.composite
def chains(draw: st.DrawFn) -> ManagedLedger:
    """Closed ledgers and perhaps an open one; ids with gaps, closing times that rise."""
    ledger = ManagedLedger(1)
    ledger_id, base, closed_ms = 0, 0, NOW_MS - 10 * 60_000
    for _ in range(draw(st.integers(0, 6))):
        ledger_id += draw(st.integers(1, 3))
        closed_ms += draw(st.integers(0, 3 * 60_000))
        entries = draw(st.integers(1, 5))
        size = entries * draw(st.integers(0, MIB // 2))
        ledger.add(LedgerInfo(ledger_id, 1, base, 0, entries, 0, size, entries, min(closed_ms, NOW_MS)))
        base += entries
    if draw(st.booleans()):
        entries = draw(st.integers(0, 5))
        ledger.add(LedgerInfo(ledger_id + 1, 1, base, 0, entries, 0, entries * MIB // 3, entries))
    return ledger


@st.composite
def positions(draw: st.DrawFn) -> Position:
    return Position(draw(st.integers(-1, 20)), draw(st.integers(-1, 5)))


def protects(ledger: ManagedLedger, index: int, cursors: list[Position], retention: RetentionPolicy) -> str | None:
    """Why the ledger at an index of the chain must stay although all before it go; None when nothing says so."""
    infos = list(ledger.ledgers.values())
    info = infos[index]
    if info.sealed_ms is None:
        return "it is open (TRIM-2)"
    if any(Position(info.ledger_id, entry) > cursor for cursor in cursors for entry in range(info.entries)):
        return "a subscription needs it (5.2)"
    if 0 in (retention.size_mb, retention.time_minutes):
        return None
    over = retention.size_mb > 0 and sum(each.size_bytes for each in infos[index + 1 :]) >= retention.size_mb * MIB
    expired = retention.time_minutes > 0 and NOW_MS - info.sealed_ms > retention.time_minutes * 60_000
    return None if over or expired else "retention keeps it (RET-1)"


@given(ledger=chains(), cursors=st.lists(positions(), max_size=3), limit=limits)
def test_what_goes_is_what_nothing_protects(
    ledger: ManagedLedger, cursors: list[Position], limit: tuple[int, int]
) -> None:
    # covers RET-1, RET-2, TRIM-1, TRIM-2, TRIM-3
    retention = RetentionPolicy(size_mb=limit[1], time_minutes=limit[0])
    plan = plan_trimming(ledger, min(cursors, default=None), retention, NOW_MS)
    reasons = [protects(ledger, index, cursors, retention) for index in range(len(ledger.ledgers))]
    expected = next((index for index, reason in enumerate(reasons) if reason is not None), len(reasons))
    assert plan.gone == tuple(ledger.ledgers)[:expected]
    held = expected < len(reasons) and reasons[expected] == "retention keeps it (RET-1)"
    assert plan.held == (tuple(ledger.ledgers)[expected] if held else None)
    if plan.held_until_ms is not None:
        # A moment before that time nothing more goes, at that time the ledger does.
        slowest = min(cursors, default=None)
        assert plan.held not in plan_trimming(ledger, slowest, retention, plan.held_until_ms - 1).gone
        assert plan.held in plan_trimming(ledger, slowest, retention, plan.held_until_ms).gone


@given(ledger=chains(), position=positions(), gone=st.integers(0, 3))
def test_sizes_are_sums(ledger: ManagedLedger, position: Position, gone: int) -> None:
    ledger.remove(list(ledger.ledgers)[:gone])
    infos = list(ledger.ledgers.values())
    assert ledger.size_bytes == sum(info.size_bytes for info in infos)
    assert ledger.bytes_after(EARLIEST) == ledger.size_bytes
    after = ledger.bytes_after(position)
    later = sum(info.size_bytes for info in infos if info.ledger_id > position.ledger_id)
    own = ledger.ledgers.get(position.ledger_id)
    before = 0 if own is None else min(own.entries, max(0, position.entry_id + 1))
    assert after == later + (0 if own is None else own.size_bytes - own.size_bytes * before // max(1, own.entries))
