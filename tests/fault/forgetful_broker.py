"""The broker of `spark-pulsar broker` with transactions that are broken on purpose: `python -m … broker …`.

`BROKEN` in the environment says how: `early` (answers come before they are on disk), `half` (a kill turns aborted
transactions into committed ones), `parts` (a kill loses pending acks of parts of batches).
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from spark_pulsar.broker.entities.core import Core
from spark_pulsar.cli.main import app
from spark_pulsar.ledger.records.transactions import TransactionAcked, TransactionEnded


def _decode_changed(record: Any, **changes: Any) -> None:
    decode = record.decode.__func__

    def decoded(cls: type, body: bytes, at: int, end: int) -> Any:
        found = decode(cls, body, at, end)
        if dataclasses.is_dataclass(found) and not isinstance(found, type):
            return dataclasses.replace(found, **changes)
        return found

    record.decode = classmethod(decoded)


def main() -> None:
    """Runs the broker."""
    broken = os.environ["BROKEN"]
    if broken == "early":
        Core.when_durable = lambda self, due: due()  # type: ignore[method-assign]
    elif broken == "half":
        _decode_changed(TransactionEnded, is_committed=1)
    else:
        assert broken == "parts", broken
        _decode_changed(TransactionAcked, batch_sets=())
    app()


if __name__ == "__main__":
    main()
