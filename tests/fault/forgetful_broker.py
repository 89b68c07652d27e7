"""The broker of `spark-pulsar broker` with transactions that are broken on purpose: `python -m … broker …`.

`BROKEN` in the environment says how: `early` (answers come before they are on disk), `half` (a kill turns aborted
transactions into committed ones), `parts` (a kill loses pending acks of parts of batches).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from spark_pulsar.broker.entities.core import Core
from spark_pulsar.cli.main import app
from spark_pulsar.ledger.records import Record
from spark_pulsar.ledger.state import apply as table
from spark_pulsar.ledger.state.transactions import TransactionAcked, TransactionEnded


def _decode_changed(record: type[Record], change: Callable[[Any], Record]) -> None:
    """Changes what is read of a journal."""
    place = record.TYPE, record.VERSION
    decode = table._DECODE[place]
    table._DECODE[place] = lambda body, at, end: change(decode(body, at, end))


def break_transactions(how: str) -> None:
    """Breaks the broker of this process."""
    if how == "early":
        Core.when_durable = lambda self, due: due()  # type: ignore[method-assign]
    elif how == "half":
        _decode_changed(TransactionEnded, lambda found: replace(found, is_committed=1))
    else:
        assert how == "parts", how
        _decode_changed(TransactionAcked, lambda found: replace(found, batch_sets=()))


if __name__ == "__main__":
    break_transactions(os.environ["BROKEN"])
    app()
