"""Messages that `produce` sends: texts, files, lines; and the values of `--from` and `--until`."""

import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.cli.bounds import Bound, now_ms, parse_bound
from spark_pulsar.cli.messages import sources
from spark_pulsar.cli.messages.records import Outgoing
from spark_pulsar.cli.messages.sources import Sources
from spark_pulsar.model.positions.ids import MessageId


def lines_of(content: bytes, separator: str = r"\n") -> list[bytes | None]:
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        return [each.value for each in Sources(lines=[Path(file.name)], separator=separator).messages()]


@given(
    st.lists(st.binary(max_size=5)),
    st.sampled_from([(r"\n", b"\n"), (r"\r\n", b"\r\n"), (r"\0", b"\0"), ("ab", b"ab"), (r"\\", b"\\")]),
    st.integers(1, 7),
)
def test_lines_are_what_stands_between_separators(
    parts: list[bytes], separator: tuple[str, bytes], block_bytes: int
) -> None:
    content = separator[1].join(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "_BLOCK_BYTES", block_bytes)
        expected = content.split(separator[1])
        if expected[-1] == b"":
            expected.pop()
        assert lines_of(content, separator[0]) == expected


def test_a_line_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sources, "MOST_BYTES", 1000)
    monkeypatch.setattr(sources, "_BLOCK_BYTES", 100)
    with pytest.raises(typer.Exit):
        list(Sources(lines=[Path("/dev/zero")]).messages())
    with pytest.raises(typer.Exit):
        list(Sources(files=[Path("/dev/zero")]).messages())
    assert capsys.readouterr().err == (
        "spark-pulsar: /dev/zero has a line of more than 1000 bytes\nspark-pulsar: /dev/zero has more than 1000 bytes\n"
    )


def test_options_fill_what_a_message_leaves_open(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    own = '{"value": "b", "key": "own", "properties": {"p": "own"}, "deliver_after_ms": 1}'
    path.write_text('{"value": "a"}\n\n' + own)
    given = Sources(lines=[path], are_json=True, key="k", properties={"p": "1", "q": "2"}, delay_ms=9)
    assert list(given.messages()) == [
        Outgoing(b"a", "k", None, {"p": "1", "q": "2"}, None, 9),
        Outgoing(b"b", "own", None, {"p": "own", "q": "2"}, None, 1),
    ]


def test_a_line_that_is_no_message_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lines"
    path.write_text('{"value": "a"}\n{"valu": "b"}\n')
    with pytest.raises(typer.Exit):
        list(Sources(lines=[path], are_json=True).messages())
    assert capsys.readouterr().err.startswith(f"spark-pulsar: {path}, line 2: unknown member 'valu': known are value,")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"separator": r"\x"}, r"\\x is none of"),
        ({"separator": ""}, "at least one"),
        ({"texts": ["a"], "are_json": True}, "lines of JSON"),
    ],
)
def test_options_that_do_not_fit(given: dict[str, Any], said: str) -> None:
    with pytest.raises(typer.BadParameter, match=said):
        Sources(**given)


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
