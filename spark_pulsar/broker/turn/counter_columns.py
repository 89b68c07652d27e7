"""Columns of the counters of topics and producers that change with every entry (see `model.column_store`).

A topic's counters stand in the row of its open ledger in the durable state.
"""

from __future__ import annotations

from typing import Final

(
    LAST_ADD_CONFIRMED_LEDGER_ID,
    LAST_ADD_CONFIRMED_ENTRY_ID,
    TOPIC_MESSAGES_IN,
    TOPIC_BYTES_IN,
    CHECK_AT_BYTES,
    LAST_PUBLISHED_MS,
    SUBSCRIPTIONS,
) = range(7)
"""Columns of a topic."""
TOPIC_WIDTH: Final = 7

TOPIC_ROW, MESSAGES_IN, BYTES_IN, LAST_GROUP = range(4)
"""Columns of a producer."""
PRODUCER_WIDTH: Final = 4
