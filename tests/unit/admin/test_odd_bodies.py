"""Bodies of any shape are refused: an exception that is not a refusal would restart the core for everybody."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest

from spark_pulsar.admin.app import ROUTES
from spark_pulsar.admin.namespaces import namespace_lifecycle
from spark_pulsar.broker.policies import documents
from spark_pulsar.broker.topics.name_limits import MAX_NAME_LENGTH
from spark_pulsar.ledger.state.documents import NamespaceSet
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.policies import policy_table
from tests.cases import cases
from tests.unit.admin.test_app import BASE, call
from tests.unit.broker.world import World

ODD: tuple[Any, ...] = (
    *(0, 5, -1, 1.5, 1e300, True, "", "text", [], [1], [[]], [{}], {}),
    *({"a": []}, {"standalone": []}, {"standalone": 5}, {"numBundles": []}, {"destination_storage": []}),
)
MEMBERS = sorted(
    {
        *namespace_lifecycle._FRESH,
        *namespace_lifecycle._BY_CLUSTER,
        *namespace_lifecycle._KEPT,
        *(policy.member for policy in policy_table.POLICIES),
    }
    | {"unknown"}
)
LEVELS = [
    (policy.kind.store, level)
    for policy in policy_table.POLICIES
    for level in (policy.namespace, policy.topic)
    if policy.kind.store is not None and level is not None
]
NAMED = {"domain": "persistent", "tenant": "public", "namespace": "default", "topic": "t"}


@cases("store, level", LEVELS)
def test_a_policy_of_any_shape_is_taken_or_refused(store: Any, level: Any) -> None:
    # covers T-1, T-16: hostile input
    shown = json.dumps(level.unset)
    for body in (*ODD, *({key: odd} for key in ("policy", "defaultNumPartitions", shown) for odd in ODD)):
        with contextlib.suppress(PulsarError):
            json.dumps(store(body, level))


@cases("member", MEMBERS)
def test_a_namespace_is_made_with_members_of_any_shape_or_refused(member: str) -> None:
    # covers T-1, T-16: hostile input
    core = World().core
    for odd in ODD:
        try:
            wanted = namespace_lifecycle._wanted(core, "public/new", {member: odd})
        except PulsarError:
            continue
        assert documents.stored(json.dumps(wanted)).notes == (), (member, odd)


@pytest.mark.parametrize(
    "path",
    ["namespaces/public/new", "tenants/new", "clusters/new", "persistent/public/default/new/subscription/s"],
)
def test_what_makes_something_answers_every_body(path: str) -> None:
    # covers T-1
    for body in ODD:
        status, _, _ = call(World(), "PUT", f"/admin/v2/{path}", json.dumps(body).encode())
        assert 200 <= status < 500, body


@pytest.mark.parametrize("verb", ["POST", "PUT"])
def test_no_body_restarts_the_core(verb: str) -> None:
    # covers T-1: every path of a topic and a namespace
    world = World()
    assert call(world, "PUT", f"{BASE}/t")[0] == 204
    paths = ["/" + path.format_map({**NAMED, **dict.fromkeys(_parts_of(path) - set(NAMED), "1")}) for path, _ in ROUTES]
    for path, (_, methods) in zip(paths, ROUTES, strict=True):
        if verb in methods:
            for body in (5, [[]], {"a": []}):
                assert call(world, verb, path, json.dumps(body).encode())[0] != 500, (path, body)


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-1e999", b"[1e400]"])
def test_what_is_no_number_is_refused_before_it_is_stored(number: bytes) -> None:
    # covers T-1, T-12: it was stored, and the answer that showed it failed from then on
    world = World()
    path = "/admin/v2/clusters/new"
    assert (
        call(world, "PUT", path, b'{"serviceUrl": "http://x:8080", "brokerClientTrustCertsFilePath": ' + number + b"}")[
            0
        ]
        == 400
    )
    assert call(world, "GET", path)[0] == 404
    assert call(world, "PUT", f"{BASE}/t", b'{"a": ' + number + b"}")[0] == 400


@pytest.mark.parametrize("roles", [0.5, True, "admin", {"a": 1}, {}])
def test_roles_of_a_tenant_are_a_list(roles: object) -> None:
    # covers T-1: a number restarted the core, and a text gave a role to each letter
    body = json.dumps({"adminRoles": roles, "allowedClusters": ["standalone"]}).encode()
    assert call(World(), "PUT", "/admin/v2/tenants/new", body)[0] == 400


def _parts_of(path: str) -> set[str]:
    return {part[1:-1] for part in path.split("/") if part.startswith("{")}


def test_properties_of_any_shape_that_an_older_version_stored() -> None:
    world = World()
    world.ask(lambda core: core.append(NamespaceSet("public/default", json.dumps({"properties": 5}))))
    path = "/admin/v2/namespaces/public/default/properties"
    assert call(world, "GET", path)[::2] == (200, {})
    assert call(world, "PUT", path, b'{"k": "v"}')[0] == 204
    assert call(world, "GET", path)[::2] == (200, {"k": "v"})


def test_a_namespace_that_no_client_could_name_is_not_made() -> None:
    # covers TN-4
    longest = "n" * (MAX_NAME_LENGTH - len("public/"))
    assert call(World(), "PUT", f"/admin/v2/namespaces/public/{longest}")[0] == 204
    assert call(World(), "PUT", f"/admin/v2/namespaces/public/{longest}n")[0] == 412
