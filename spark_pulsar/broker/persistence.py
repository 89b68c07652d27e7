"""What a persistence policy means on one disk.

Apache Pulsar accepts any policy and then cannot make a topic that wants more bookies than there are; so does this
broker, at once and with a reason. A topic that exists goes on with its one copy. `managedLedgerMaxMarkDeleteRate`, the
most often that Apache Pulsar stores a cursor without being asked, needs nothing here: acks of all cursors share a write
every 100 ms (CUR-4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.model.errors import PersistenceError

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.model.names import TopicName


def check_copies(core: Core, name: TopicName) -> None:
    """PersistenceError when the topic's policy wants more than one copy."""
    wanted = core.policies_of(name).persistence.ensemble
    if wanted > 1:
        raise PersistenceError(
            f"Not enough bookies to create {name}: its persistence policy wants {wanted} (bookkeeperEnsemble), this "
            "broker is one and keeps one copy. Set bookkeeperEnsemble, bookkeeperWriteQuorum and bookkeeperAckQuorum "
            "to 1, or remove the policy"
        )
