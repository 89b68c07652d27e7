"""Which of the ways to share out slots a Key_Shared subscription gets (8.2 ... 8.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.wire.pulsar_api_pb2 import STICKY, KeySharedMeta

from .consistent_hash_selector import ConsistentHashSelector
from .hash_range_selectors import AutoSplitSelector, StickySelector

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core

    from .hash_range_selectors import Selector


def selector_for(core: Core, wanted: KeySharedMeta) -> Selector:
    """The way for the mode that the first consumer wants, and the configuration."""
    if wanted.keySharedMode == STICKY:
        return StickySelector()
    if core.config.key_shared_ring:
        return ConsistentHashSelector(core.config.key_shared_ring_points)
    return AutoSplitSelector()
