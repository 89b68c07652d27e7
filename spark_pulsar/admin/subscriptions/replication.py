"""Replication of subscriptions to other clusters: it is off and stays so on one node (ADM-58); the flag of SUBSCRIBE is
not read (CUR-20)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.calls import TOPIC_PATH, changes, reads, routes
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.admin.topics.non_persistent_refusals import check_persistent
from spark_pulsar.admin.topics.topic_lifecycle import partitions_in_steps
from spark_pulsar.model.policies.json_values import truth

if TYPE_CHECKING:
    from spark_pulsar.admin.http.calls import Call, Routes
    from spark_pulsar.admin.http.slices import Steps
    from spark_pulsar.broker.entities.core import Core


def _get(core: Core, call: Call) -> Steps[object]:
    names = yield from _names(core, call, "get")
    return dict.fromkeys(names, False)


def _set(core: Core, call: Call) -> Steps[None]:
    is_wanted = truth(call.json(), "replicatedSubscriptionStatus")
    yield from _names(core, call, "enable/disable")
    if is_wanted:
        raise Refused(501, "Subscriptions are replicated to other clusters, and this broker is its whole cluster")


def _names(core: Core, call: Call, verb: str) -> Steps[list[str]]:
    """Returns the names of a topic, or its partitions, which all have the subscription."""
    name, subscription = call.topic, call.parts["subscription"]
    check_persistent(name, 405, f"Cannot {verb} replicated subscriptions on non-persistent topics")
    names: list[str] = []
    for topic in (yield from partitions_in_steps(core, name)):
        if subscription not in topic.subscriptions:
            raise Refused(404, f"Subscription {subscription} not found for topic {topic.full_name}")
        names.append(topic.full_name)
        yield
    return names


ROUTES: Final[Routes] = routes(
    f"{TOPIC_PATH}/subscription/{{subscription}}/replicatedSubscriptionStatus",
    ("GET", access.topic("GET_REPLICATED_SUBSCRIPTION_STATUS"), reads(_get)),
    ("POST", access.topic("SET_REPLICATED_SUBSCRIPTION_STATUS"), changes(_set)),
)
