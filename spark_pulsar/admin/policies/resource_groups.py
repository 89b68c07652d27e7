"""Resource groups over REST, and the groups of namespaces (ADM-5)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.answers import warned
from spark_pulsar.admin.http.calls import ADMIN_PATH, NAMESPACE_PATH, changes, reads, routes
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.admin.namespaces.namespace_lifecycle import existing
from spark_pulsar.broker.topics import policy_changes
from spark_pulsar.broker.upkeep import configuration_changes
from spark_pulsar.ledger.state.documents import RESOURCE_GROUPS
from spark_pulsar.model.policies.json_values import MalformedPolicy
from spark_pulsar.model.policies.resource_groups import RESOURCE_GROUP, ResourceGroup

if TYPE_CHECKING:
    from spark_pulsar.admin.http.calls import Call, Routes
    from spark_pulsar.broker.entities.core import Core

_DISPATCH_NOTE: Final = (
    "dispatchRateInMsgs and dispatchRateInBytes are stored and have no effect, as in Apache Pulsar 4.0: a group limits "
    "what its topics take, not what they send"
)


def _stored(core: Core, name: str, status: int = 404) -> ResourceGroup:
    text = core.state.documents[RESOURCE_GROUPS].get(name)
    if text is None:
        raise Refused(status, "ResourceGroup does not exist")
    return ResourceGroup.from_json(json.loads(text))


def _set(core: Core, call: Call) -> None:
    name, body = call.parts["group"], call.json()
    try:
        ResourceGroup.check_name(name)
    except MalformedPolicy as error:
        raise Refused(412, error.message) from error
    if body is None and call.body.strip() != b"{}":
        raise Refused(400, "resource group: want an object with the rates of the group")
    text = core.state.documents[RESOURCE_GROUPS].get(name)
    before = ResourceGroup() if text is None else ResourceGroup.from_json(json.loads(text))
    configuration_changes.set_resource_group(core, name, before.updated({} if body is None else body))


def _delete(core: Core, call: Call) -> None:
    name = call.parts["group"]
    _stored(core, name)
    quoted = json.dumps(name)
    for namespace, text in core.state.namespaces.items():
        if quoted in text and policy_changes.of_namespace(core, namespace).get(RESOURCE_GROUP) == name:
            raise Refused(412, "ResourceGroup is in use")
    configuration_changes.set_resource_group(core, name, None)


async def _put(call: Call) -> Response:
    answer = await changes(_set)(call)
    if _stored(call.core, call.parts["group"]).limits_dispatch:
        warned(answer, _DISPATCH_NOTE)
    return answer


async def _get_of_namespace(call: Call) -> Response:
    name = existing(call.core, call.namespace).get(RESOURCE_GROUP)
    if name is None:
        return Response(status_code=200, headers={"Content-Length": "0"})
    return Response(name, media_type="application/json")  # as Apache Pulsar writes it: without quotes


def _set_of_namespace(core: Core, call: Call) -> None:
    existing(core, call.namespace)
    _stored(core, call.parts["group"], 412)
    policy_changes.set_of_namespace(core, call.namespace, RESOURCE_GROUP, call.parts["group"])


def _delete_of_namespace(core: Core, call: Call) -> None:
    existing(core, call.namespace)
    policy_changes.set_of_namespace(core, call.namespace, RESOURCE_GROUP, None)


ROUTES: Final[Routes] = (
    *routes(
        ADMIN_PATH,
        (
            "GET /resourcegroups",
            access.super_user,
            reads(lambda core, _: sorted(core.state.documents[RESOURCE_GROUPS])),
        ),
        (
            "GET /resourcegroups/{group}",
            access.super_user,
            reads(lambda core, call: _stored(core, call.parts["group"]).to_json()),
        ),
        ("PUT /resourcegroups/{group}", access.super_user, _put),
        ("DELETE /resourcegroups/{group}", access.super_user, changes(_delete)),
    ),
    *routes(
        NAMESPACE_PATH,
        ("GET /resourcegroup", access.namespace_policy("RESOURCEGROUP", "READ"), _get_of_namespace),
        ("DELETE /resourcegroup", access.namespace_policy("RESOURCEGROUP", "WRITE"), changes(_delete_of_namespace)),
        ("POST /resourcegroup/{group}", access.namespace_policy("RESOURCEGROUP", "WRITE"), changes(_set_of_namespace)),
    ),
)
