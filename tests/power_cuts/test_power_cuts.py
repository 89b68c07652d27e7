"""Power cuts of a loaded broker, simulated: nothing that was promised is lost, nothing is there that nobody sent.

`make power-cuts N=50` (`CUTS=50 pytest tests/power_cuts`) records a longer load and cuts it more often. `CUT_SEED`
makes other choices. `CUT_RECORDING` names a folder that keeps the recording, so that the same seed repeats the same
cuts; `CUT=17` does one of them.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from spark_pulsar.testing.process import BrokerDidNotStart

from .cuts import PowerCuts
from .judge import PromiseBroken
from .sqlite_files import library

CUTS = int(os.environ.get("CUTS", "2"))
IS_LONG = CUTS > 2
SEED = int(os.environ.get("CUT_SEED") or (random.SystemRandom().randrange(1, 1_000_000) if IS_LONG else 20261123))
RECORDED_BYTES = (8_000_000, 16_000_000) if IS_LONG else (1_500_000,)
"""Sizes of the recordings; the second load is on what a cut of the first one left."""
NOTICED_WITHIN = 20
"""Cuts until a broker that does not sync must have been noticed."""

BROKEN = ["half", *(["parts"] if IS_LONG else [])]
UNSYNCED = ["write journal", *(["sync ledgers", "sync checkpoint.sqlite-wal"] if IS_LONG else [])]

pytestmark = pytest.mark.skipif(
    library() is None, reason="SQLite is built into this Python: what it writes cannot be recorded"
)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the recording that all tests here cut."""
    kept = os.environ.get("CUT_RECORDING")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("recording")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_no_promise_is_broken(recording: Path, tmp_path: Path) -> None:
    # covers TX-3, TX-6, TX-11, TX-12, TX-17, DUR-1, DUR-3, DUR-4, DUR-9, ACK-9, CUR-3, CUR-5, DED-7, DEL-7
    began = time.monotonic()
    cuts = PowerCuts(recording, tmp_path, SEED, RECORDED_BYTES)
    print(f"seed {SEED}: {cuts.description}, {time.monotonic() - began:.0f} s")
    numbers = [int(os.environ["CUT"])] if "CUT" in os.environ else range(CUTS)
    for number in numbers:
        try:
            print(cuts.cut(number))
        except BaseException:
            print(f"CUT={number} CUT_SEED={SEED} repeats it on the same recording; the image is in {tmp_path}")
            raise
    print(
        f"{len(numbers)} cuts and {len(numbers)} while opening, {time.monotonic() - began:.0f} s, seed {SEED}; ", end=""
    )
    print(f"after them {cuts.open_transactions} transactions were open, {cuts.lost_ends} ends had no answer")


def test_a_repair_that_is_cut_short_can_be_run_again(recording: Path, tmp_path: Path) -> None:
    cuts = PowerCuts(recording, tmp_path, SEED, RECORDED_BYTES)
    for number in range(max(1, CUTS // 10)):
        print(cuts.cut_repair(number))


@pytest.mark.long
@pytest.mark.parametrize("unsynced", UNSYNCED)
def test_a_broker_that_does_not_sync_is_noticed(recording: Path, tmp_path: Path, unsynced: str) -> None:
    cuts = PowerCuts(recording, tmp_path, SEED, RECORDED_BYTES)
    cuts.forget(unsynced)
    with pytest.raises((PromiseBroken, BrokerDidNotStart)):  # noqa: PT012 - any of the cuts may tell
        for number in range(NOTICED_WITHIN):
            cuts.cut(number, after=0.8)


@pytest.mark.long
@pytest.mark.parametrize("broken", BROKEN)
def test_a_broker_that_forgets_transactions_is_noticed(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    cuts = PowerCuts(recording, tmp_path, SEED, RECORDED_BYTES)
    monkeypatch.setenv("BROKEN", broken)
    with pytest.raises(PromiseBroken) as noticed:  # noqa: PT012 - any of the cuts may tell
        for number in range(NOTICED_WITHIN):
            cuts.cut(number, after=0.8)
    print(f"{broken}: {noticed.value}"[:300])
