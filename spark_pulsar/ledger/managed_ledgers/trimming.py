"""Plans the trimming of ledgers that cursors no longer need, under a retention policy (TRIM-1 ... TRIM-3, RET-1,
BQ-11).

Only whole closed ledgers go, only from the front, and the first one that something protects protects all behind it.
Until a ledger goes, its acknowledged entries can be read (TRIM-4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from spark_pulsar.model.policies.effective_policies import RetentionPolicy
    from spark_pulsar.model.positions.ids import Position

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


def plan_trimming(
    ledger: ManagedLedger,
    slowest: Position | None,
    retention: RetentionPolicy,
    now_ms: int,
    clock_since_ms: int | None = None,
) -> Trimming:
    """Plans which ledgers may be trimmed at this time. `slowest` is the lowest mark-delete of the durable cursors, None
    without any, since readers hold nothing (RET-5): then every closed ledger is a candidate.

    A candidate goes when its closing lies longer back than the time limit, or when the rest without it still reaches
    the size limit (so that the rest never falls below the limit). A closing that lies in the future, by a clock that
    went back since, counts from `clock_since_ms`.
    """
    begin_ms = now_ms if clock_since_ms is None else clock_since_ms
    gone: list[int] = []
    left_bytes = ledger.size_bytes
    for ledger_id in ledger.ledger_ids():
        info = ledger.ledgers[ledger_id]
        if info.sealed_ms is None or (slowest is not None and (ledger_id, info.entries - 1) > slowest):
            break
        left_bytes -= info.size_bytes
        sealed_ms = info.sealed_ms if info.sealed_ms <= now_ms else begin_ms
        if not _may_go(now_ms - sealed_ms, left_bytes, retention):
            until_ms = None if retention.time_ms < 0 else sealed_ms + retention.time_ms + 1
            return Trimming(tuple(gone), ledger_id, until_ms)
        gone.append(ledger_id)
    return Trimming(tuple(gone), None, None)


def _may_go(age_ms: int, left_bytes: int, retention: RetentionPolicy) -> bool:
    """Returns whether retention releases a ledger, closed `age_ms` ago, that no cursor needs; `left_bytes`: of the
    others (RET-1, RET-4)."""
    if retention.keeps_nothing:
        return True
    is_expired = retention.time_ms >= 0 and age_ms > retention.time_ms
    is_over_size = retention.size_bytes >= 0 and left_bytes >= retention.size_bytes
    return is_expired or is_over_size
