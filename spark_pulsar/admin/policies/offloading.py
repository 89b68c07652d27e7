"""Thresholds of offload policies of a namespace, each by itself, and offloading of a topic (ADM-52). A threshold
is a member of the offload policies, which it creates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.calls import NAMESPACE_PATH, TOPIC_PATH, changes, reads, routes, value_or_empty
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.admin.namespaces.namespace_lifecycle import OLD_OFFLOAD_MEMBERS, existing
from spark_pulsar.admin.topics import topic_lifecycle
from spark_pulsar.broker.topics import policy_changes
from spark_pulsar.model.limits import LONG
from spark_pulsar.model.policies.json_values import number
from spark_pulsar.model.policies.offload_policies import (
    DELETION_LAG_MS,
    THRESHOLD_BYTES,
    THRESHOLD_S,
    shown_offload_policies,
)
from spark_pulsar.model.policies.policies_without_effect import OFFLOAD_POLICIES
from spark_pulsar.model.policies.policy_table import BY_MEMBER

from .policy_routes import noting

if TYPE_CHECKING:
    from starlette.responses import Response

    from spark_pulsar.admin.http.calls import Call, Routes
    from spark_pulsar.broker.entities.core import Core

_NO_MESSAGE: Final = {"ledgerId": -1, "entryId": -1, "partitionIndex": -1, "batchIndex": -1, "batchSize": 0}


_READ: Final = access.namespace_policy("OFFLOAD", "READ")
_WRITE: Final = access.namespace_policy("OFFLOAD", "WRITE")


def _threshold(path: str, member: str, unset: int | None, status: int) -> Routes:
    async def get(call: Call) -> Response:
        stored = existing(call.core, call.namespace)
        value = stored.get(OFFLOAD_POLICIES, {}).get(member)
        return value_or_empty(stored.get(OLD_OFFLOAD_MEMBERS[member], unset) if value is None else value)

    def put(core: Core, call: Call) -> None:
        body = call.json()
        value = number(0 if body is None and call.body else body, member, LONG)
        _set(core, call, member, value)

    noted = noting(BY_MEMBER[OFFLOAD_POLICIES], changes(put, status))
    return routes(NAMESPACE_PATH, (f"GET {path}", _READ, get), (f"PUT {path}", _WRITE, noted))


def _set(core: Core, call: Call, member: str, value: int | None) -> None:
    offload: dict[str, Any] = dict(existing(core, call.namespace).get(OFFLOAD_POLICIES, {}))
    offload.pop(member, None)
    if value is not None:
        offload[member] = value
    policy_changes.set_of_namespace(core, call.namespace, OFFLOAD_POLICIES, shown_offload_policies(offload))


def _delete_lag(core: Core, call: Call) -> None:
    _set(core, call, DELETION_LAG_MS, None)


def _offload(core: Core, call: Call) -> None:
    """Takes a request to offload a topic. Nothing happens, as in an Apache Pulsar without a driver."""
    if call.json() is None:
        raise Refused(400, "messageId is null")
    topic_lifecycle.existing(core, call.topic)


def _status(core: Core, call: Call) -> object:
    topic_lifecycle.existing(core, call.topic)
    return {"status": "NOT_RUN", "lastError": "", "firstUnoffloadedMessage": _NO_MESSAGE}


ROUTES: Final[Routes] = (
    *_threshold("/offloadThreshold", THRESHOLD_BYTES, -1, 204),
    *_threshold("/offloadThresholdInSeconds", THRESHOLD_S, -1, 200),
    *_threshold("/offloadDeletionLagMs", DELETION_LAG_MS, None, 204),
    *routes(NAMESPACE_PATH, ("DELETE /offloadDeletionLagMs", _WRITE, changes(_delete_lag))),
    *routes(
        TOPIC_PATH,
        ("GET /offload", access.topic("OFFLOAD"), reads(_status)),
        ("PUT /offload", access.topic("OFFLOAD"), changes(_offload)),
    ),
)
