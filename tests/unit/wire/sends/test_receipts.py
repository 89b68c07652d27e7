"""Receipts in bulk are, byte for byte, what protobuf would write one by one (A2)."""

from __future__ import annotations

import pytest

from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.protocol import frames
from spark_pulsar.wire.sends.columnar_receipts import columnar_receipts
from spark_pulsar.wire.sends.receipts import receipts
from tests import entry_commands
from tests.cases import cases


def expected(
    producer_id: int, ledger_id: int, first: int, ids: list[int], highest: list[int] | None = None, step: int = 1
) -> bytes:
    return b"".join(
        frames.command_frame(
            entry_commands.send_receipt(
                producer_id, ids[i], Position(ledger_id, first + i * step), highest[i] if highest is not None else 0
            )
        )
        for i in range(len(ids))
    )


@cases("first_entry", [0, 1, 100, 127, 128, 16_380, 2**21 - 5, 2**40])
@cases("first_id", [0, 90, 127, 128, 16_300, 2**21 - 100, 2**64 - 400])
def test_consecutive(first_entry: int, first_id: int) -> None:
    ids = list(range(first_id, first_id + 300))
    assert receipts(1, 7, first_entry, ids) == expected(1, 7, first_entry, ids)
    assert receipts(1, 7, first_entry, range(first_id, first_id + 300)) == expected(1, 7, first_entry, ids)


@pytest.mark.parametrize("ids", [[], [5], [5, 5, 5], [200, 202, 203, 201, 2**63, 0, 1], list(range(0, 5000, 100))])
@pytest.mark.parametrize(("producer_id", "ledger_id"), [(0, 0), (127, 128), (2**64 - 1, 2**63 - 1)])
def test_not_consecutive(ids: list[int], producer_id: int, ledger_id: int) -> None:
    assert receipts(producer_id, ledger_id, 120, ids) == expected(producer_id, ledger_id, 120, ids)


def test_highest_sequence_ids_are_echoed() -> None:
    ids, highest = [10, 15, 215], [14, 214, 2**64 - 1]
    assert receipts(1, 7, 126, ids, highest) == expected(1, 7, 126, ids, highest)


def test_dropped_duplicates() -> None:
    # 5.5: ledger and entry 2**64 - 1 for every one of them
    assert receipts(1, -1, -1, [4, 5, 6]) == expected(1, -1, -1, [4, 5, 6], step=0)
    assert receipts(1, -1, -1, [4], [9]) == expected(1, -1, -1, [4], [9], step=0)


def test_receipts_in_different_ledgers() -> None:
    rows = [
        (p, ledger, e, s)
        for p in (0, 300)
        for ledger in (1, 2**40)
        for e in (0, 127, 128, 9**9)
        for s in (0, 2**63 - 1)
    ]
    expected_frames = [expected(p, ledger, e, [s]) for p, ledger, e, s in rows]
    assert columnar_receipts(*([row[i] for row in rows] for i in range(4))) == b"".join(expected_frames)
    assert columnar_receipts([], [], [], []) == b""
