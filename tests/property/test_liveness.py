"""No subscription ever stands still: see `liveness`."""

from __future__ import annotations

from tests.cases import cases
from tests.property.liveness import JudgedLife
from tests.property.lives import CONFIGS, KINDS

STEPS = 100
SEEDS = 3


@cases("seed", range(SEEDS))
@cases("config", CONFIGS)
@cases("kind", KINDS)
def test_whatever_is_published_arrives_as_soon_as_somebody_may_receive_it(kind: str, config: str, seed: int) -> None:
    # covers SUB-4, SUB-10, EX-4, FO-1, SH-4, SH-6, SH-7, SH-8, SH-10, KS-1, KS-8, KS-10, KS-13, KS-14, NACK-3, CHK-6
    JudgedLife(kind, config, seed).run(STEPS)
