"""Chooses the dispatcher of a subscription by its type, its topic, and the Key_Shared mode of its first consumer. Types
that are switched off are refused before, in `subscribing` (SUB-3, KS-16)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.wire.pulsar_api_pb2 import STICKY, CommandSubscribe, KeySharedMeta

from .compacted import CompactedDispatcher
from .exclusive import ExclusiveDispatcher
from .failover import FailoverDispatcher
from .key_shared.classic import ClassicKeySharedDispatcher
from .key_shared.dispatcher import KeySharedDispatcher
from .key_shared.selectors import AutoSplitSelector, ConsistentHashSelector, StickySelector
from .non_persistent_dispatch import (
    NonPersistentExclusiveDispatcher,
    NonPersistentFailoverDispatcher,
    NonPersistentKeySharedDispatcher,
    NonPersistentSharedDispatcher,
)
from .shared import SharedDispatcher

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription

    from .base import Dispatcher
    from .key_shared.selectors import Selector


def new_dispatcher(
    core: Core,
    subscription: Subscription,
    subscription_type: int,
    key_shared: KeySharedMeta | None = None,
    *,
    read_compacted: bool = False,
) -> Dispatcher:
    """Makes the dispatcher of a subscription type; `key_shared` is the mode of a Key_Shared one (SUB-2)."""
    is_stored = subscription.topic.non_persistent is None
    if subscription_type == CommandSubscribe.Key_Shared:
        return _key_shared(core, subscription, key_shared or KeySharedMeta())
    if subscription_type == CommandSubscribe.Shared:
        return (SharedDispatcher if is_stored else NonPersistentSharedDispatcher)(core, subscription)
    if subscription_type == CommandSubscribe.Failover:
        return (FailoverDispatcher if is_stored else NonPersistentFailoverDispatcher)(core, subscription)
    if not is_stored:
        return NonPersistentExclusiveDispatcher(core, subscription)
    return (CompactedDispatcher if read_compacted else ExclusiveDispatcher)(core, subscription)


def _key_shared(core: Core, subscription: Subscription, mode: KeySharedMeta) -> KeySharedDispatcher:
    """Makes a Key_Shared dispatcher; the classic rule is for AUTO_SPLIT in order on stored topics (KS-9)."""
    is_sticky, keeps_order = mode.keySharedMode == STICKY, not mode.allowOutOfOrderDelivery
    selector: Selector
    if is_sticky:
        selector = StickySelector()
    elif core.config.key_shared_ring:
        selector = ConsistentHashSelector(core.config.key_shared_ring_points)
    else:
        selector = AutoSplitSelector()
    if subscription.topic.non_persistent is not None:
        return NonPersistentKeySharedDispatcher(core, subscription, selector, keeps_order=keeps_order)
    if core.config.key_shared_classic and keeps_order and not is_sticky:
        return ClassicKeySharedDispatcher(core, subscription, selector)
    return KeySharedDispatcher(core, subscription, selector, keeps_order=keeps_order)
