"""Permissions of roles with several topics of one namespace, granted or taken away together over REST: all or none
(AU-9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.calls import Route, changes
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.broker.security import authorization
from spark_pulsar.model.errors import InvalidTopicName
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.policies.json_values import members
from spark_pulsar.model.policies.permissions import MAX_GRANTS, actions
from spark_pulsar.model.policies.permissions import role as read_role

from .permissions import check_topic, store_of_topics, without

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_pulsar.admin.http.calls import Call, Routes
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.model.policies.permissions import Grants

GRANT_PATH: Final = "admin/v2/namespaces/grantPermissionsOnTopics"
REVOKE_PATH: Final = "admin/v2/namespaces/revokePermissionsOnTopics"


def requested_topics(call: Call) -> list[tuple[TopicName, Mapping[str, Any]]]:
    """Reads the topics of a request, each with its members. Raises Refused unless all are of one namespace."""
    body = call.json()
    if not isinstance(body, list) or len(body) > MAX_GRANTS:
        raise Refused(400, f"want a list of at most {MAX_GRANTS} topics with roles, got {type(body).__name__}")
    requests = [(_topic(request), request) for request in body]
    if len({(name.tenant, name.namespace) for name, _ in requests}) != 1:
        raise Refused(400, "The namespace should be the same")
    return requests


def _topic(value: object) -> TopicName:
    name = members(value, "permissions").get("topic")
    if not isinstance(name, str):
        raise Refused(400, f"permissions: want the name of a topic, got {name!r:.200}")
    try:
        return TopicName.parse(name)
    except InvalidTopicName as error:
        raise Refused(412, f"Topic name is not valid: {error.message}") from error


def _grant(core: Core, call: Call) -> None:
    """Grants a role its actions with each topic, in place of those that it had."""
    requests = requested_topics(call)
    given = [(name, read_role(request.get("role")), actions(request.get("actions"))) for name, request in requests]
    changed = _known_grants(core, [name for name, _ in requests])
    for name, role, allowed in given:
        changed[name.full] = {**changed[name.full], role: allowed}
    store_of_topics(core, requests[0][0].namespace_name, changed)


def _revoke(core: Core, call: Call) -> None:
    """Takes all actions with each topic away from a role, which may have none."""
    requests = requested_topics(call)
    roles = [(name, read_role(request.get("role"))) for name, request in requests]
    changed = _known_grants(core, [name for name, _ in requests])
    for name, role in roles:
        changed[name.full] = without(changed[name.full], role)
    store_of_topics(core, requests[0][0].namespace_name, changed)


def _known_grants(core: Core, topics: Sequence[TopicName]) -> dict[str, Grants]:
    """Returns the actions of roles with each of these topics alone, which exist."""
    for name in topics:
        check_topic(core, name)
    own = authorization.permissions_of(core, topics[0].namespace_name).topics
    return {name.full: own.get(name.full, {}) for name in topics}


def _administrator(core: Core, call: Call) -> None:
    """Refuses those who do not administrate the tenant of the topics, which the body names."""
    access.administrator(core, call, requested_topics(call)[0][0].tenant)


ROUTES: Final[Routes] = (
    Route("POST", GRANT_PATH, access.anyone, changes(_grant), _administrator),
    Route("POST", REVOKE_PATH, access.anyone, changes(_revoke), _administrator),
)
