"""Chooses the dispatcher of a subscription by its type, its topic and how it shares out keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.wire.pulsar_api_pb2 import CommandSubscribe, KeySharedMeta

from .compacted import CompactedDispatcher
from .exclusive import ExclusiveDispatcher
from .failover import FailoverDispatcher
from .key_shared.classic import classic_key_shared_dispatcher
from .key_shared.dispatcher import key_shared_dispatcher
from .non_persistent import non_persistent_dispatcher
from .shared import SharedDispatcher

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription

    from .base import Dispatcher


def new_dispatcher(
    core: Core,
    subscription: Subscription,
    subscription_type: int,
    key_shared: KeySharedMeta | None = None,
    *,
    read_compacted: bool = False,
) -> Dispatcher:
    """Makes the dispatcher of a subscription type; `key_shared` says how a Key_Shared one shares out its keys."""
    if subscription.topic.non_persistent is not None:
        return non_persistent_dispatcher(core, subscription, subscription_type, key_shared or KeySharedMeta())
    if subscription_type == CommandSubscribe.Key_Shared:
        make = classic_key_shared_dispatcher if core.config.key_shared_classic else key_shared_dispatcher
        return make(core, subscription, key_shared or KeySharedMeta())
    if subscription_type == CommandSubscribe.Shared:
        return SharedDispatcher(core, subscription)
    if subscription_type == CommandSubscribe.Failover:
        return FailoverDispatcher(core, subscription)
    return (CompactedDispatcher if read_compacted else ExclusiveDispatcher)(core, subscription)
