"""Decoding of payload columns: what every decoder promises, and finding the rows of a column that do not decode
(SCHEMA-18)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from spark_pulsar.connector.schemas.payloads.flat_payloads import spread
from spark_pulsar.connector.schemas.payloads.reasons import Reasons

_LEAST_RUN: Final = 16
"""Rows that are decoded at a time where most do not decode: each failure costs the work for a run."""
_MOST_ROUNDS: Final = 32
"""Times that a column is decoded anew without the rows that did not decode; after that it is cut into runs."""


class UndecodablePayload(ValueError):
    """Error of a payload that is none of its schema; `row` says which of a column, None when it is not known.

    A decoder that knows more rows raises one error for all of them: `rows` has the reason of each. One that has decoded
    all others gives them along: `partial`, with null in these rows.
    """

    def __init__(
        self, reason: str, row: int | None = None, rows: Mapping[int, str] | None = None, partial: Any = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.row = row
        self.rows: Mapping[int, str] = rows or {}
        self.partial = partial

    @staticmethod
    def of(rows: Mapping[int, str], partial: Any = None) -> UndecodablePayload:
        """Returns the error of all these rows."""
        row, reason = Reasons.of(rows).first
        return UndecodablePayload(reason, row, rows, partial)

    def explained(self, hint: str) -> UndecodablePayload:
        """Returns the same error with more about its reason."""
        rows = Reasons.of(self.rows).explained(hint) if self.rows else {}
        return UndecodablePayload(f"{self.reason}{hint}", self.row, rows, self.partial)

    def without_partial(self) -> UndecodablePayload:
        """Returns the same error of a decoder that has to decode the others anew."""
        return UndecodablePayload(self.reason, self.row, self.rows)

    def with_partial(self, partial: Callable[[Any], Any]) -> UndecodablePayload:
        """Returns the same error with what becomes of the decoded others."""
        changed = None if self.partial is None else partial(self.partial)
        return UndecodablePayload(self.reason, self.row, self.rows, changed)


class Decoder(Protocol):
    """A decoder of payloads that were written with one schema."""

    type: Any
    """Arrow type of the decoded values."""

    def decode(self, payloads: Any) -> Any:
        """Decodes a binary array without nulls into an array of `type` and of the same length. Raises
        UndecodablePayload when one of them is none of the schema, with the others where it can."""


def decode_rows(decoder: Decoder, payloads: Any) -> tuple[Any, Reasons]:
    """Decodes a binary array: the values, null for a null payload and for one that does not decode, and the reasons of
    the latter."""
    if payloads.null_count:
        valid = payloads.is_valid().to_numpy(zero_copy_only=False)
        decoded, reasons = decode_rows(decoder, payloads.drop_null())
        return spread(decoded, valid), Reasons().and_of(reasons, np.flatnonzero(valid))
    if not len(payloads):
        return pa.nulls(0, decoder.type), Reasons()
    return _without_known_errors(decoder, payloads)


def _without_known_errors(decoder: Decoder, payloads: Any) -> tuple[Any, Reasons]:
    """Decodes a binary array without nulls; what the decoder names as undecodable is left out of the next round, where
    it has not decoded the others yet."""
    rows: Any = None
    left, reasons = payloads, Reasons()
    for _ in range(_MOST_ROUNDS):
        if rows is not None and not len(rows):
            return pa.nulls(len(payloads), decoder.type), reasons
        try:
            return _placed(decoder.decode(left), rows, len(payloads)), reasons
        except UndecodablePayload as undecodable:
            if not undecodable.rows:
                break
            named = Reasons.of(undecodable.rows)
            reasons = reasons.and_of(named, rows)
            if undecodable.partial is not None:
                return _placed(undecodable.partial, rows, len(payloads)), reasons
            good = ~named.are_of(len(left))
            rows = np.arange(len(payloads)) if rows is None else rows
            rows, left = rows[good], left.filter(pa.array(good))
    in_runs: dict[int, str] = {}
    decoded = _in_runs(decoder, left, in_runs)
    return _placed(decoded, rows, len(payloads)), reasons.and_of(in_runs, rows)


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
