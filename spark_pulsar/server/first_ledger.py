"""First ledger of a data directory: the number at which its ledgers begin (ML-6).

Message ids are kept outside of the broker, in checkpoints of queries above all. Were the ledgers of each directory to
begin at the same number, those of one that was wiped and made anew would give its messages the ids of others. (The
namespaces of a new broker are in `broker.policies.documents`, B-1.)
"""

from __future__ import annotations

from random import SystemRandom
from typing import TYPE_CHECKING, Final

from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.durable_state import NEXT_LEDGER, CounterSet, DurableState

if TYPE_CHECKING:
    from spark_pulsar.ledger.storage import Storage

_SINCE_MS: Final = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""
_STEP_MS: Final = 10
"""A directory may open a hundred ledgers a second, on average of its life, before a later one meets them. Ids
have ten digits so, and until 2036 less than 35 bits: libraries of Pulsar pack ledger and entry into one number."""
_MOST_BY_CHANCE: Final = 10**9


def first_ledger_id(now_ms: int) -> int:
    """Returns the number for a directory that is made now: a later one has a greater number. By a clock that stands
    before 2026, as where none has set it, it is a random one."""
    step = (now_ms - _SINCE_MS) // _STEP_MS
    return step if step > 0 else SystemRandom().randrange(1, _MOST_BY_CHANCE)


def number_ledgers(storage: Storage, state: DurableState, now_ms: int) -> None:
    """Stores the number of the first ledger, unless the directory has had a ledger or has such a number (ML-6)."""
    if state.next_ledger_id == DurableState().next_ledger_id:
        begun = CounterSet(NEXT_LEDGER, first_ledger_id(now_ms))
        apply(state, begun)
        storage.submit([begun])
