"""Refusals of calls about a namespace whose tenant does not exist, and of one that is missing itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.brokers import Broker

SCHEMA = {"type": "STRING", "schema": "", "properties": {}}
NAMESPACE = "/admin/v2/namespaces/{}"
SCHEMAS = "/admin/v2/schemas/{}/t"
NO_TENANT, NO_NAMESPACE = "Tenant does not exist", "Namespace does not exist"


@pytest.mark.parametrize(
    ("method", "path", "body", "reason"),
    [
        ("GET", f"{NAMESPACE}/properties", None, NO_TENANT),
        ("PUT", f"{NAMESPACE}/properties", {"a": "b"}, NO_TENANT),
        ("DELETE", f"{NAMESPACE}/properties", None, NO_TENANT),
        ("GET", f"{NAMESPACE}/property/a", None, NO_TENANT),
        ("PUT", f"{NAMESPACE}/property/a/b", None, NO_TENANT),
        ("DELETE", f"{NAMESPACE}/property/a", None, NO_TENANT),
        ("POST", f"{SCHEMAS}/compatibility", SCHEMA, NO_TENANT),
        ("GET", NAMESPACE, None, NO_NAMESPACE),
        ("GET", f"{NAMESPACE}/messageTTL", None, NO_NAMESPACE),
        ("POST", f"{NAMESPACE}/messageTTL", 5, NO_NAMESPACE),
        ("POST", f"{NAMESPACE}/replication", ["standalone"], NO_NAMESPACE),
    ],
)
def test_which_one_is_missing(broker: Broker, method: str, path: str, body: Any, reason: str) -> None:
    # covers T-1
    assert broker.rest(method, path.format("no-tenant/n"), body) == (404, {"reason": reason})
    assert broker.rest(method, path.format("public/no-namespace"), body) == (404, {"reason": NO_NAMESPACE})


def test_schemas_are_not_deleted_without_a_tenant(broker: Broker) -> None:
    # covers T-1
    answer = broker.rest("DELETE", f"{SCHEMAS}/schema".format("no-tenant/n"))
    assert answer == (404, {"reason": NO_TENANT})
