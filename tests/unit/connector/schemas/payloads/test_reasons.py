"""Reasons of rows that do not decode: those of several columns, of selections of rows, as a column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.connector.schemas.payloads.flat_payloads import spread, without
from spark_pulsar.connector.schemas.payloads.reasons import Reasons

ROWS = st.dictionaries(st.integers(0, 19), st.text(max_size=3))


@given(ROWS, ROWS)
def test_reasons_are_a_mapping_in_order_of_rows_where_later_ones_count(
    first: dict[int, str], later: dict[int, str]
) -> None:
    # covers SCHEMA-18
    reasons = Reasons.of(first).and_of(Reasons.of(later))
    assert reasons == first | later
    assert list(reasons) == sorted(first | later)
    assert reasons.column(20).to_pylist() == [(first | later).get(row) for row in range(20)]
    if reasons:
        assert reasons.first == min((first | later).items())
        assert reasons.explained("!") == {row: f"{reason}!" for row, reason in (first | later).items()}


@given(ROWS, st.permutations(range(20)))
def test_reasons_of_a_selection_of_rows_become_those_of_their_places(
    reasons: dict[int, str], places: list[int]
) -> None:
    # covers SCHEMA-18
    moved = Reasons().and_of(reasons, np.array(places))
    assert moved == {places[row]: reason for row, reason in reasons.items()}
    assert list(moved) == sorted(moved)


@given(st.lists(st.tuples(st.booleans(), st.text(max_size=3)), max_size=20))
def test_arrays_are_null_in_some_rows_and_spread_over_others(rows: list[tuple[bool, str]]) -> None:
    valid = np.array([is_valid for is_valid, _ in rows], np.bool_)
    expected = [text if is_valid else None for is_valid, text in rows]
    texts = pa.array([text for _, text in rows], pa.string())
    spread_out = spread(texts.filter(pa.array(valid, pa.bool_())), valid)
    nested = pa.StructArray.from_arrays([texts], names=["x"])
    halved = without(nested, ~valid)[len(rows) // 2 :]  # of an array that begins elsewhere
    for array in (spread_out, without(texts, ~valid), without(nested, ~valid).flatten()[0]):
        array.validate(full=True)
        assert array.to_pylist() == expected
    assert without(halved, ~valid[len(rows) // 2 :]).flatten()[0].to_pylist() == expected[len(rows) // 2 :]
