"""Delayed entries that come many at a time are kept as if they had come one by one."""

from random import Random

import pytest

from spark_pulsar.ledger.state.delays import Delays
from tests.delayed_entries import delayed_entries


@pytest.mark.parametrize("seed", range(4))
def test_many_at_once_are_as_one_by_one(seed: int) -> None:
    # covers DEL-3, DEL-4
    random = Random(seed)
    together, single = Delays(), Delays()
    entry_id, now_ms = 4_000, 0
    for _ in range(30):
        entry_ids = []
        for _ in range(random.choice((1, 100, 127, 128, 500))):
            entry_id += random.choice((1, 1, 1, 2, 7)) if seed % 2 else 1
            entry_ids.append(entry_id)
        times_ms = [now_ms + random.randrange(1, 400) for _ in entry_ids]
        changed = {key for each, time in zip(entry_ids, times_ms, strict=True) for key in single.add(3, [each], [time])}
        assert together.add(3, entry_ids, times_ms) == changed
        assert together.next_block() == single.next_block()
        assert list(delayed_entries(together)) == list(delayed_entries(single))
        assert list(together.held) == list(single.held)
        now_ms += random.randrange(100)
        while (following := single.next_block()) is not None and following[0] <= now_ms:
            for delays in (together, single):
                delays.elapse(following[1], now_ms)
