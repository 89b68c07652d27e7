"""A history's story, line by line: what the core told clients."""

from __future__ import annotations

from typing import Any

from spark_pulsar.broker.turn import effects as fx


def told(effect: fx.Effect) -> tuple[Any, ...]:
    """An order as a line of the story."""
    if isinstance(effect, fx.SendCommand):
        return ("command", effect.session_id, int(effect.command.type), effect.command.SerializeToString())
    if isinstance(effect, fx.SendMessages):
        return (
            "messages",
            effect.session_id,
            effect.consumer_id,
            effect.ledger_id,
            effect.first_entry_id,
            len(effect.starts),
            *(() if effect.entry_ids is None else (list(effect.entry_ids),)),
        )
    if isinstance(effect, fx.SendReceipts):
        return ("receipts", effect.session_id, effect.ledger_id, effect.first_entry_id, list(effect.sequence_ids))
    if isinstance(effect, fx.SendColumnarReceipts):
        return ("receipts", effect.session_id, list(effect.ledger_ids), list(effect.entry_ids))
    return (type(effect).__name__, getattr(effect, "session_id", 0))
