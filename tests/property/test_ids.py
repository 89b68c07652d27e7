"""Message ids: a total order that agrees with where messages lie, and a text form that loses nothing."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_pulsar.model.positions.ids import InvalidMessageId, MessageId, signed, unsigned

QUICK = settings(max_examples=200, deadline=None, derandomize=True)
SMALL = st.integers(-1, 3)
IDS = st.builds(MessageId, SMALL, SMALL, SMALL, SMALL)
WIDE = st.integers(-1, 2**63 - 1)


def key(message_id: MessageId) -> tuple[int, int, int]:
    return message_id.ledger_id, message_id.entry_id, message_id.batch_index


@QUICK
@given(IDS, IDS)
def test_order_is_that_of_the_place(one: MessageId, other: MessageId) -> None:
    # covers ML-4
    assert (one < other) == (key(one) < key(other))
    assert (one <= other) == (key(one) <= key(other))
    assert (one > other) == (other < one)
    assert (one >= other) == (other <= one)
    assert (one < other) + (one > other) + (key(one) == key(other)) == 1


@QUICK
@given(st.lists(IDS))
def test_sorting_and_extremes(ids: list[MessageId]) -> None:
    assert [key(one) for one in sorted(ids)] == sorted(key(one) for one in ids)
    if ids:
        assert key(max(ids)) == max(key(one) for one in ids)


@QUICK
@given(st.builds(MessageId, WIDE, WIDE, WIDE, WIDE))
def test_text_there_and_back(message_id: MessageId) -> None:
    assert MessageId.parse(str(message_id)) == message_id


@QUICK
@given(st.text(alphabet="0123456789:- x", max_size=12))
def test_any_text_is_an_id_or_refused(text: str) -> None:
    try:
        parsed = MessageId.parse(text)
    except InvalidMessageId:
        return
    assert [int(part) for part in text.split(":")] == list(parsed)[: text.count(":") + 1]


@QUICK
@given(st.integers(-(2**63), 2**63 - 1))
def test_wire_numbers(number: int) -> None:
    assert 0 <= unsigned(number) < 2**64
    assert signed(unsigned(number)) == number
