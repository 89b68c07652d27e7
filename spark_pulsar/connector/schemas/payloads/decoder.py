"""Decoding of payload columns: what every decoder promises, and finding the rows of a column that do not decode
(SCHEMA-18)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from spark_pulsar.connector.schemas.payloads.flat_payloads import spread

_LEAST_RUN: Final = 16
"""Rows that are decoded at a time where most do not decode: each failure costs the work for a run."""
_MOST_ROUNDS: Final = 32
"""Times that a column is decoded anew without the rows that did not decode; after that it is cut into runs."""


class UndecodablePayload(ValueError):
    """Error of a payload that is none of its schema; `row` says which of a column, None when it is not known.

    A decoder that knows more rows raises one error for all of them: `rows` has the reason of each.
    """

    def __init__(self, reason: str, row: int | None = None, rows: Mapping[int, str] | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.row = row
        self.rows: Mapping[int, str] = rows or {}

    @staticmethod
    def of(rows: Mapping[int, str]) -> UndecodablePayload:
        """Returns the error of all these rows."""
        first = min(rows)
        return UndecodablePayload(rows[first], first, rows)

    def explained(self, hint: str) -> UndecodablePayload:
        """Returns the same error with more about its reason."""
        rows = {row: f"{reason}{hint}" for row, reason in self.rows.items()}
        return UndecodablePayload(f"{self.reason}{hint}", self.row, rows)


class Decoder(Protocol):
    """A decoder of payloads that were written with one schema."""

    type: Any
    """Arrow type of the decoded values."""

    def decode(self, payloads: Any) -> Any:
        """Decodes a binary array without nulls into an array of `type` and of the same length. Raises
        UndecodablePayload when one of them is none of the schema."""


def decode_rows(decoder: Decoder, payloads: Any, errors: dict[int, str], first: int = 0) -> Any:
    """Decodes a binary array; null for a null payload and for one that does not decode.

    The reasons of the latter go into `errors`, by row, counted from `first`.
    """
    if payloads.null_count:
        valid = payloads.is_valid().to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(valid)
        reasons: dict[int, str] = {}
        decoded = decode_rows(decoder, payloads.drop_null(), reasons)
        add_errors(errors, reasons, rows, first)
        return spread(decoded, valid)
    if not len(payloads):
        return pa.nulls(0, decoder.type)
    return _without_known_errors(decoder, payloads, errors, first)


def add_errors(errors: dict[int, str], reasons: Mapping[int, str], rows: Any, first: int = 0) -> None:
    """Adds the reasons of a selection of rows: `rows` has the row of each of its items, counted from `first`."""
    if reasons:
        places = (rows[np.fromiter(reasons, np.int64, len(reasons))] + first).tolist()
        errors.update(zip(places, reasons.values(), strict=True))


def _without_known_errors(decoder: Decoder, payloads: Any, errors: dict[int, str], first: int) -> Any:
    """Decodes a binary array without nulls; what the decoder names as undecodable is left out of the next round."""
    rows: Any = None
    left = payloads
    for _ in range(_MOST_ROUNDS):
        if rows is not None and not len(rows):
            return pa.nulls(len(payloads), decoder.type)
        try:
            return _placed(decoder.decode(left), rows, len(payloads))
        except UndecodablePayload as undecodable:
            if not undecodable.rows:
                break
            good = np.ones(len(left), np.bool_)
            good[list(undecodable.rows)] = False
            rows = np.arange(len(payloads)) if rows is None else rows
            add_errors(errors, undecodable.rows, rows, first)
            rows, left = rows[good], left.filter(pa.array(good))
    reasons: dict[int, str] = {}
    decoded = _in_runs(decoder, left, reasons)
    add_errors(errors, reasons, np.arange(len(payloads)) if rows is None else rows, first)
    return _placed(decoded, rows, len(payloads))


def _placed(decoded: Any, rows: Any, count: int) -> Any:
    """Returns an array of `count` items with those decoded at their rows, null elsewhere; as it is without rows."""
    if rows is None:
        return decoded
    valid = np.zeros(count, np.bool_)
    valid[rows] = True
    return spread(decoded, valid)


def _in_runs(decoder: Decoder, payloads: Any, errors: dict[int, str]) -> Any:
    """Decodes a binary array without nulls in runs, for decoders that name one row at a time, or none."""
    parts = list(_parts(decoder, payloads, errors))
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts) if parts else pa.nulls(0, decoder.type)


def _parts(decoder: Decoder, payloads: Any, errors: dict[int, str]) -> Iterator[Any]:
    """Yields the arrays of runs of rows, in order; a run that does not decode is cut until its row is found."""
    waiting, most = [(0, len(payloads), "")], len(payloads)
    while waiting:
        start, end, known = waiting.pop()
        if known:
            errors[start] = known
            yield pa.nulls(1, decoder.type)
        elif start < end:
            if end - start > most:
                waiting.append((start + most, end, ""))
                end = start + most
            try:
                yield decoder.decode(payloads.slice(start, end - start))
                most *= 2
            except UndecodablePayload as undecodable:
                most = max(_LEAST_RUN, most // 4)
                row = undecodable.row if end - start > 1 else 0
                if row is None:
                    middle = (start + end) // 2
                    waiting += [(middle, end, ""), (start, middle, "")]
                else:
                    at = start + row
                    waiting += [(at + 1, end, ""), (at, at + 1, undecodable.reason), (start, at, "")]
