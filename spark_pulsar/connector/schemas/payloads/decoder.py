"""Decoding of payload columns: what every decoder promises, and finding the rows of a column that do not decode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from spark_pulsar.connector.schemas.payloads.flat_payloads import spread

_LEAST_RUN: Final = 16
"""Rows that are decoded at a time where most do not decode: each failure costs the work for a run."""


class UndecodablePayload(ValueError):
    """Error of a payload that is none of its schema; `row` says which of a column, None when it is not known."""

    def __init__(self, reason: str, row: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.row = row


class Decoder(Protocol):
    """A decoder of payloads that were written with one schema."""

    type: Any
    """Arrow type of what it makes."""

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
        found: dict[int, str] = {}
        decoded = decode_rows(decoder, payloads.drop_null(), found)
        errors.update({first + int(rows[row]): reason for row, reason in found.items()})
        return spread(decoded, valid)
    parts = list(_parts(decoder, payloads, errors, first))
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts) if parts else pa.nulls(0, decoder.type)


def _parts(decoder: Decoder, payloads: Any, errors: dict[int, str], first: int) -> Iterator[Any]:
    """Yields the arrays of runs of rows, in order; a run that does not decode is cut until its row is found."""
    waiting, most = [(0, len(payloads), "")], len(payloads)
    while waiting:
        start, end, known = waiting.pop()
        if known:
            errors[first + start] = known
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
