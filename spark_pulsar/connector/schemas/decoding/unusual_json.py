"""JSON payloads of which some are unusual: each goes the quickest way that reads it.

Payloads that the kernel has no doubt about become columns at once; of them the members without a type of Spark's are
read by Python from where they stand. Payloads in doubt are read by Python as a whole.
"""

from __future__ import annotations

import decimal
import json
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_pulsar.connector.schemas.decoding.json_faults import faults_of
from spark_pulsar.connector.schemas.decoding.json_program import Program, has_times
from spark_pulsar.connector.schemas.decoding.json_tables import JsonRows, JsonTables, OutOfRange
from spark_pulsar.connector.schemas.decoding.json_values import json_text
from spark_pulsar.connector.schemas.payloads.decoder import UndecodablePayload
from spark_pulsar.connector.schemas.payloads.flat_payloads import without
from spark_pulsar.connector.schemas.payloads.reasons import Reasons
from spark_pulsar.connector.schemas.payloads.record_types import RecordType
from spark_pulsar.connector.schemas.payloads.rescued import with_rescued

LEAST_ROWS: Final = 512
"""Rows below which all are read by Python: it is done before kernels are loaded."""
Value = Callable[[Any], Any]
_JSON: Final = json.JSONDecoder(parse_float=decimal.Decimal)


@dataclass(slots=True)
class _Form:
    """Payloads with times in one form: the record that they make, and what reads them."""

    record: RecordType
    with_text_times: bool = False
    program: Program | None = None
    rows: JsonRows | None = None


class ApartDecoder:
    """Payloads of a record, whose members `of_columns` are those that the kernel reads.

    `exact` is the record as Python reads it: payloads in doubt `by_row`, members that are located by `values`. Where it
    `rescues`, payloads with fields that the schema does not name are in doubt, too, and `values` makes pairs of a value
    and what of it is rescued.
    """

    def __init__(
        self,
        record: RecordType,
        exact: RecordType,
        of_columns: Set[str],
        by_row: Value,
        values: dict[str, Value],
        json_bytes: str,
        *,
        rescues: bool = False,
    ) -> None:
        self._rescues = rescues
        self._json_bytes = json_bytes
        self._exact = exact
        self._columns = tuple(name for name in record.members if name in of_columns)
        self._others = tuple(name for name in record.members if name not in of_columns)
        self._by_row = by_row
        self._values = values
        self._forms = [_Form(record)]
        """With times as numbers, and as texts; what most payloads had last is first."""
        if any(has_times(exact.members[name]) for name in self._columns):
            self._forms.append(_Form(exact, with_text_times=True))

    def decode(self, payloads: Any) -> Any:
        """Returns the payloads as an array of Spark's type. Raises UndecodablePayload with the rows that are known."""
        form, tables = self._tables(payloads)
        reasons = faults_of(payloads, np.flatnonzero(~tables.is_read))
        if not reasons and not tables.is_read.any():
            return self._by_row(payloads)
        in_doubt = np.flatnonzero(~tables.is_read & ~reasons.are_of(len(payloads)))
        by_row: Any = None
        if len(in_doubt):
            by_row, named = self._rows_in_doubt(payloads, in_doubt, reasons)
            reasons = reasons.and_of(named, in_doubt)
        try:
            read, named = self._read(form, tables)
        except OutOfRange:
            return self._by_row(payloads)
        except UndecodablePayload as error:
            raise (UndecodablePayload.of(reasons) if reasons else error) from error
        reasons = reasons.and_of(named)
        wrong = reasons.are_of(len(payloads))
        if wrong[in_doubt].all():
            read = without(read, wrong) if reasons else read
        else:
            places = np.arange(len(payloads))
            places[in_doubt] = len(payloads) + np.arange(len(in_doubt))
            read = pa.concat_arrays([read, by_row]).take(pa.array(places, mask=wrong))
        if reasons:
            raise UndecodablePayload.of(reasons, read)
        return read

    def _rows_in_doubt(self, payloads: Any, rows: Any, reasons: Reasons) -> tuple[Any, Mapping[int, str]]:
        """Returns payloads as Python reads them, and the reasons of those that do not decode. Raises UndecodablePayload
        where it is not known which, or the others are not decoded yet; of the rows with `reasons` alone, if any."""
        try:
            return self._by_row(payloads.take(pa.array(rows))), {}
        except UndecodablePayload as error:
            if error.partial is not None:
                return error.partial, error.rows
            known = reasons.and_of(error.rows, rows)
            raise (UndecodablePayload.of(known) if known else UndecodablePayload(error.reason)) from error

    def _tables(self, payloads: Any) -> tuple[_Form, JsonTables]:
        """Returns the form that most payloads have, and the tables of those."""
        candidates: list[tuple[int, _Form, JsonTables]] = []
        for form in self._forms:
            if form.rows is None:
                form.program = Program(
                    form.record,
                    self._others,
                    self._json_bytes,
                    is_closed=self._rescues,
                    with_text_times=form.with_text_times,
                )
                form.rows = JsonRows(form.program)
            tables = form.rows.read(payloads)
            candidates.append((int(np.count_nonzero(tables.is_read)), form, tables))
            if 2 * candidates[-1][0] > len(payloads):
                break
        _, best, tables = max(candidates, key=lambda candidate: candidate[0])
        self._forms.sort(key=lambda form: form is not best)
        return best, tables

    def _read(self, form: _Form, tables: JsonTables) -> tuple[Any, Mapping[int, str]]:
        """Returns the payloads of tables as an array of Spark's type, and the reasons of those that do not decode.
        Raises OutOfRange, and UndecodablePayload for a value that Spark has no room for."""
        assert form.program is not None
        nodes = form.program.root.members
        by_name: dict[str, Any] = {name: tables.array(nodes[name]) for name in self._columns}
        errors: dict[int, str] = {}
        for name in self._others:
            starts, lengths = (numbers.tolist() for numbers in tables.slot(nodes[name]))
            by_name[name] = _located(tables.octets, starts, lengths, self._values[name], errors)
        if not self._rescues:
            return self._as_spark_has_it(form.record, by_name), errors
        texts = _rescued_texts({name: by_name[name] for name in self._others}, len(tables.is_read))
        by_name |= {name: [pair and pair[0] for pair in by_name[name]] for name in self._others}
        return with_rescued(self._as_spark_has_it(form.record, by_name), texts), errors

    def _as_spark_has_it(self, record: RecordType, by_name: dict[str, Any]) -> Any:
        arrays = []
        for name, member in record.members.items():
            array, exact = by_name[name], self._exact.members[name]
            try:
                if isinstance(array, list):
                    arrays.append(exact.to_spark(pa.array(array, exact.physical)))
                else:
                    arrays.append(member.to_spark(array))
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeError) as error:
                raise UndecodablePayload(f"it does not fit Spark's types: {error}") from error
        return pa.StructArray.from_arrays(arrays, fields=list(record.arrow))


def _located(octets: Any, starts: list[int], lengths: list[int], value: Value, errors: dict[int, str]) -> list[Any]:
    """Returns the values that stand at places, None for a length of -1; reasons of those that are none by row."""
    data, values = memoryview(octets), []
    for row, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        try:
            text = None if length < 0 else str(data[start : start + length], "utf-8")
            values.append(None if text is None else value(_JSON.decode(text)))
        except (ValueError, RecursionError, ArithmeticError) as error:
            errors.setdefault(row, f"it is no JSON of its schema: {error}")
            values.append(None)
    return values


def _rescued_texts(pairs: dict[str, list[Any]], rows: int) -> list[str | None] | None:
    """Returns the texts of the rescued members; None where nothing was rescued."""
    rescued: dict[int, dict[str, Any]] = {}
    for name, members in pairs.items():
        for row, pair in enumerate(members):
            if pair is not None and pair[1] is not None:
                rescued.setdefault(row, {})[name] = pair[1]
    return [json_text(rescued[row]) if row in rescued else None for row in range(rows)] if rescued else None
