"""Data loss: decides whether a read may have a hole, by `failOnDataLoss` (OFFSET-5). What is no loss, `reading.gaps`
(OFFSET-7) and `micro_batches.topic_continuity` (OFFSET-20 ... OFFSET-22) know.

Messages between two offsets may be gone from the broker. `planning` sees that a partition was deleted or replaced
(OFFSET-6), also what a start named (OFFSET-9), `reading` that a part of its range was removed before it was read, or
ends before its end (`client.errors.EndNotReached`, OFFSET-8), `chunked` that a chunk of a message is missing. All of
them call this module: with `failOnDataLoss` true the loss is a DataLossError; else it is logged, and the read goes on.

A loss between the offsets of a micro-batch is decided once, when its end is planned. A replay reads the same ranges,
and only logs the losses accepted then.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from spark_pulsar.connector.errors import DataLossError

LOG: Final = logging.getLogger("spark_pulsar")


def report_losses(losses: Sequence[str], *, fail: bool, to: str = "go on with what is there", note: str = "") -> None:
    """Raises DataLossError for `losses`, sentences without full stop, if `fail`; else logs each of them.

    `to` says in the error what failOnDataLoss=false would do, `note` names in the log the step taken.
    """
    if losses and fail:
        raise DataLossError(f"{'; '.join(losses)}. Set failOnDataLoss to false to {to}.")
    for loss in losses:
        LOG.warning("%s%s", loss, note)
