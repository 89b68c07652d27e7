"""Changes of the configuration in a running broker: all that copied a value takes the new one, within the turn (ADM-1).

Most rules read `core.config` when they need a value. Effective policies, limiters of all topics together, timers of
rounds and the cache are notified here; monitors visit every topic, some in a turn.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from spark_pulsar.broker.configuration.dynamic_config import configured
from spark_pulsar.broker.dispatch.limits import dispatch_rates
from spark_pulsar.broker.security import revocation
from spark_pulsar.ledger.state.documents import DYNAMIC_CONFIGURATION, RESOURCE_GROUPS, DocumentDeleted, DocumentSet

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.model.policies.resource_groups import ResourceGroup


def set_key(core: Core, name: str, text: str) -> None:
    """Sets a dynamic key, whose text can be read (`dynamic_config.read`), now and for later starts."""
    core.append(DocumentSet(DYNAMIC_CONFIGURATION, name, text))
    _configure(core)


def delete_key(core: Core, name: str) -> None:
    """Lets the value of `broker.conf` hold again."""
    if name in core.state.documents[DYNAMIC_CONFIGURATION]:
        core.append(DocumentDeleted(DYNAMIC_CONFIGURATION, name))
        _configure(core)


def set_resource_group(core: Core, name: str, group: ResourceGroup | None) -> None:
    """Sets the rates of a resource group, or deletes it; topics of its namespaces take them at once (ADM-5)."""
    text = json.dumps(group.to_json()) if group is not None else ""
    core.append(DocumentSet(RESOURCE_GROUPS, name, text) if text else DocumentDeleted(RESOURCE_GROUPS, name))
    before = core.publish_limits.of_groups.keys()
    core.publish_limits.configure()
    if core.publish_limits.of_groups.keys() != before:
        core.monitors.configure()


def _configure(core: Core) -> None:
    before = core.config
    core.config = config = configured(core.static_config, core.state.documents[DYNAMIC_CONFIGURATION])
    if config == before:
        return
    core.policies.configure(config)
    core.cache.resize(config.cache_bytes)
    core.publish_limits.configure()
    dispatch_rates.configure(core)
    for rounds in core.rounds:
        rounds.set_interval()
    core.monitors.configure()
    if config.super_user_roles != before.super_user_roles:
        for namespace in list(core.state.namespaces):
            revocation.close_revoked(core, namespace)
