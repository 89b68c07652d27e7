"""Properties of retry letters and dead letters, as the Java client names them (RLQ-3, DLQ-3, DLQ-4, LETTER-1)."""

from __future__ import annotations

from typing import Final

REAL_TOPIC: Final = "REAL_TOPIC"
REAL_SUBSCRIPTION: Final = "REAL_SUBSCRIPTION"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
FORMER_ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_IDY_TIME"
RECONSUME_TIMES: Final = "RECONSUMETIMES"
DELAY_TIME: Final = "DELAY_TIME"

LETTER_PROPERTIES: Final = (
    REAL_TOPIC,
    REAL_SUBSCRIPTION,
    ORIGIN_MESSAGE_ID,
    FORMER_ORIGIN_MESSAGE_ID,
    RECONSUME_TIMES,
    DELAY_TIME,
)
"""Properties of a letter that are not its message's."""
