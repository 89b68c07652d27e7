"""The values of `--from` and `--until`."""

from __future__ import annotations

from datetime import datetime

import pytest
import typer

from spark_pulsar.cli.messages.bounds import Bound, now_ms, parse_bound
from spark_pulsar.model.positions.ids import MessageId


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("earliest", Bound()),
        ("Latest", Bound(is_latest=True)),
        ("12:0", Bound(message_id=MessageId(12, 0))),
        ("12:0:-1:3", Bound(message_id=MessageId(12, 0, -1, 3))),
        ("(12,0,-1,3)", Bound(message_id=MessageId(12, 0, -1, 3))),
        ("1795484960636", Bound(time_ms=1_795_484_960_636)),
        ("2026-11-24T08:30:00+02:00", Bound(time_ms=1_795_501_800_000)),
        ("2026-11-24T08:30", Bound(time_ms=int(datetime(2026, 11, 24, 8, 30).timestamp() * 1000))),
    ],
)
def test_values(text: str, bound: Bound) -> None:
    assert parse_bound(text, "--from", words=("earliest", "latest")) == bound


def test_times_ago() -> None:
    ago_ms = parse_bound("-2h", "--from", words=()).time_ms
    assert ago_ms is not None
    assert 0 <= now_ms() - 7_200_000 - ago_ms < 60_000


@pytest.mark.parametrize("text", ["", "middle", "12", "-2", "2h", "12:x", "2026-13-01"])
def test_values_that_are_none(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="want earliest, a message id such as"):
        parse_bound(text, "--from", words=("earliest",))
