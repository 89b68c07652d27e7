"""Names of the counters that hand out ids of topics, ledgers and cursors."""

from __future__ import annotations

from typing import Final

NEXT_TOPIC: Final = "next.topic"


NEXT_LEDGER: Final = "next.ledger"


NEXT_CURSOR: Final = "next.cursor"
