"""Questions of tools about a cluster's brokers: this broker is the only one, and the leader (ADM-7).

A question about a feature that this broker has not is answered as by a broker without use of it; its use is 501.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.calls import ADMIN_PATH, reads, routes
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.admin.namespaces.bundle_edges import bundle_of
from spark_pulsar.admin.namespaces.namespace_lifecycle import bundle_edges

if TYPE_CHECKING:
    from spark_pulsar.admin.http.calls import Call, Routes
    from spark_pulsar.admin.http.slices import Steps
    from spark_pulsar.broker.entities.core import Core


def _brokers(_core: Core, call: Call) -> object:
    return [call.broker_id]


def _owned(core: Core, call: Call) -> Steps[dict[str, dict[str, object]]]:
    """Lists the bundles that have topics in use: this broker owns them all."""
    broker = call.parts["broker"]
    if broker != call.broker_id:
        raise Refused(404, f"Broker id '{broker}' not found in available brokers.")
    owned: dict[str, dict[str, object]] = {}
    for topic in list(core.topics.values()):
        namespace = topic.name.namespace_name
        if namespace in core.state.namespaces:
            bundle = bundle_of(bundle_edges(core, namespace), topic.full_name)
            owned[f"{namespace}/{bundle}"] = {
                "broker_assignment": "shared",
                "is_controlled": False,
                "is_active": True,
            }
        yield
    return owned


ROUTES: Final[Routes] = routes(
    ADMIN_PATH,
    ("GET /brokers", access.broker("LIST_BROKERS"), reads(_brokers)),
    (
        "GET /brokers/leaderBroker",
        access.broker("GET_LEADER_BROKER"),
        reads(lambda _, call: {"serviceUrl": call.admin_url, "brokerId": call.broker_id}),
    ),
    ("GET /brokers/{cluster}/{broker}/ownedNamespaces", access.broker("LIST_OWNED_NAMESPACES"), reads(_owned)),
    ("GET /brokers/{cluster}", access.broker("LIST_BROKERS"), reads(_brokers)),
)
"""Paths that stand behind those of other modules: their names under `brokers/` are no clusters."""
