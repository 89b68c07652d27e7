"""Plans the trimming of ledgers that cursors no longer need, under a retention policy (rules 5.2 and 5.3).

Only whole closed ledgers go, only from the front, and the first one that something protects protects all behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from spark_pulsar.model.ids import Position
    from spark_pulsar.model.policies import RetentionPolicy

    from .ledger import LedgerInfo
    from .managed_ledger import ManagedLedger


class Trimming(NamedTuple):
    """A plan of trimming: the ledgers that may go now, and the first that retention holds.

    | attribute | meaning |
    | --- | --- |
    | `gone` | ids of ledgers that may go, from the front |
    | `held` | the first ledger that no cursor needs and retention keeps, None when there is none |
    | `held_until_ms` | the end of its retention time, None when only size or nothing ends it |
    """

    gone: tuple[int, ...]
    held: int | None
    held_until_ms: int | None


def plan_trimming(ledger: ManagedLedger, slowest: Position | None, retention: RetentionPolicy, now_ms: int) -> Trimming:
    """Plans which ledgers may be trimmed at this time. `slowest` is the lowest mark-delete of the durable cursors, None
    without any: then every closed ledger is a candidate.

    A candidate goes when its closing lies longer back than the time limit, or when what is left without it still
    reaches the size limit (so that the rest never falls below the limit).
    """
    gone: list[int] = []
    left_bytes = ledger.size_bytes
    for ledger_id in ledger.ledger_ids():
        info = ledger.ledgers[ledger_id]
        if info.sealed_ms is None or (slowest is not None and (ledger_id, info.entries - 1) > slowest):
            break
        left_bytes -= info.size_bytes
        if not _may_go(info, left_bytes, retention, now_ms):
            until_ms = None if retention.time_ms < 0 else info.sealed_ms + retention.time_ms + 1
            return Trimming(tuple(gone), ledger_id, until_ms)
        gone.append(ledger_id)
    return Trimming(tuple(gone), None, None)


def _may_go(info: LedgerInfo, left_bytes: int, retention: RetentionPolicy, now_ms: int) -> bool:
    """Tells whether retention lets go of a closed ledger that no cursor needs; `left_bytes`: of the others (RET-1)."""
    assert info.sealed_ms is not None, "only closed ledgers are asked about (TRIM-2)"
    if retention.keeps_nothing:
        return True
    is_expired = retention.time_ms >= 0 and now_ms - info.sealed_ms > retention.time_ms
    is_over_size = retention.size_bytes >= 0 and left_bytes >= retention.size_bytes
    return is_expired or is_over_size
