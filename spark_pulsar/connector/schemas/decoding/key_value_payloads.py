"""Payloads of inline KEY_VALUE schemas: key and value, each behind its length, become two columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from spark_pulsar.connector.schemas.payloads.flat_payloads import flat, gathered, spread
from spark_pulsar.connector.schemas.payloads.reasons import Reasons

_LENGTH_BYTES = 4
_NULL = -1


def split_inline(payloads: Any) -> tuple[Any, Any, Reasons]:
    """Returns keys and values of inline payloads as binary arrays; null where a length is -1 and for a null payload.

    A payload whose lengths do not fit it is null in both, and has a reason.
    """
    if payloads.null_count:
        valid = payloads.is_valid().to_numpy(zero_copy_only=False)
        key, value, reasons = split_inline(payloads.drop_null())
        return spread(key, valid), spread(value, valid), Reasons().and_of(reasons, np.flatnonzero(valid))
    octets, offsets = flat(payloads)
    starts, ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    fits = ends - starts >= 2 * _LENGTH_BYTES
    keys = _lengths(octets, starts, fits)
    value_at = starts + _LENGTH_BYTES + np.maximum(keys, 0)
    fits &= (keys >= _NULL) & (value_at + _LENGTH_BYTES <= ends)
    values = _lengths(octets, value_at, fits)
    fits &= (values >= _NULL) & (value_at + _LENGTH_BYTES + np.maximum(values, 0) == ends)
    keys[~fits] = values[~fits] = _NULL
    reasons = Reasons.alike(np.flatnonzero(~fits), ["it is no key and value behind their lengths"])
    key, value = gathered(octets, starts + _LENGTH_BYTES, keys), gathered(octets, value_at + _LENGTH_BYTES, values)
    return key, value, reasons


def _lengths(
    octets: npt.NDArray[np.uint8], places: npt.NDArray[np.int64], there: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Reads the lengths at places; -2 where there is none."""
    lengths = np.full(len(places), _NULL - 1, np.int64)
    if there.any():
        lengths[there] = octets[places[there][:, None] + np.arange(_LENGTH_BYTES)].view(">i4")[:, 0]
    return lengths
