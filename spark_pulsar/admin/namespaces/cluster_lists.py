"""Checks of lists of clusters in policies: each is known, and allowed for the tenant and the namespace (ADM-51)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.ledger.state.documents import CLUSTERS, TENANTS
from spark_pulsar.model.policies.json_values import InvalidPolicy

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core

_NOT_ALLOWED = "Cluster [{}] is not in the list of allowed clusters list for {} [{}]"


def check_replication(
    core: Core, namespace: str, wanted: Sequence[str], allowed: Iterable[str], level: str = "namespace"
) -> None:
    """Refuses clusters to copy messages to; `allowed` are those of the namespace, none for all."""
    for cluster in wanted:
        if cluster not in core.state.documents[CLUSTERS]:
            if allowed:
                raise InvalidPolicy(f"Invalid replication cluster {cluster}")
            raise Refused(403, f"Invalid cluster id: {cluster}")
        if allowed and cluster not in allowed:
            raise Refused(400, _NOT_ALLOWED.format(cluster, "namespace", namespace))
    check_tenant(core, namespace, wanted)
    if core.config.cluster_name not in wanted:
        raise InvalidPolicy(f"Can not remove local cluster from the local {level}-level replication clusters policy")


def check_allowed(core: Core, namespace: str, wanted: Sequence[str], replication: Sequence[str]) -> None:
    """Refuses clusters that the tenant may not use, and a list without those that messages are copied to."""
    check_tenant(core, namespace, wanted)
    if not set(replication) <= set(wanted):
        raise Refused(
            400,
            f"Allowed clusters do not contain the replication cluster [{', '.join(replication)}]. "
            "Please remove the replication cluster if the cluster is not allowed for this namespace",
        )


def check_tenant(core: Core, namespace: str, wanted: Sequence[str]) -> None:
    """Refuses clusters that the tenant may not use."""
    tenant = namespace.partition("/")[0]
    allowed = json.loads(core.state.documents[TENANTS][tenant])["allowedClusters"]
    for cluster in wanted:
        if cluster not in allowed:
            raise Refused(403, _NOT_ALLOWED.format(cluster, "tenant", tenant))
