"""Bodies of any shape, depth and length are served or refused: another exception would restart the core for all."""

import contextlib
import json
from typing import Any

import pytest

from spark_pulsar.admin.app import ROUTES
from spark_pulsar.admin.http.answers import MAX_DEPTH, parse_body
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.admin.namespaces import namespace_lifecycle
from spark_pulsar.broker.policies import documents
from spark_pulsar.broker.topics.name_limits import MAX_NAME_LENGTH, MAX_PROPERTIES_LENGTH, MAX_TOPIC_NAME_LENGTH
from spark_pulsar.ledger.state.documents import NamespaceSet
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.limits import MAX_PARTITIONS
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
    cluster = b'{"serviceUrl": "http://x:8080", "brokerClientTrustCertsFilePath": %b}' % number
    assert call(world, "PUT", path, cluster)[0] == 400
    assert call(world, "GET", path)[0] == 404
    assert call(world, "PUT", f"{BASE}/t", b'{"a": %b}' % number)[0] == 400


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


def test_half_of_a_surrogate_pair_is_refused() -> None:
    # Nothing could store it: the journal's texts are UTF-8.
    with pytest.raises(Refused, match="no JSON"):
        parse_body(b'{"a": "\\ud800"}')
    assert parse_body(b'{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 100_000])
def test_a_body_that_nests_too_deep_is_refused(opening: bytes, closing: bytes, depth: int) -> None:
    # Also where it can just be read: it could not be written again.
    with pytest.raises(Refused, match="nested more than 100 deep"):
        parse_body(opening * depth + b"1" + closing * depth)
    parse_body(opening * MAX_DEPTH + b"1" + closing * MAX_DEPTH)
    parse_body(b"[" + b"[]," * 1_000 + b"1]")


MOST_LOCAL = MAX_TOPIC_NAME_LENGTH - len("persistent://public/default/")


def properties(length: int) -> bytes:
    return json.dumps({"k": "v" * (length - 1)}).encode()


@pytest.mark.parametrize(
    ("path", "limit", "taken"),
    [("/t/subscription/{}", MAX_NAME_LENGTH, 204), ("/{}", MOST_LOCAL, 204)],
    ids=["subscription", "topic"],
)
def test_a_name_at_the_limit_and_past_it(path: str, limit: int, taken: int) -> None:
    world = World()
    assert call(world, "PUT", BASE + path.format("n" * limit))[0] == taken
    status, _, answer = call(world, "PUT", BASE + path.format("n" * (limit + 1)))
    assert status == 412
    longest = MAX_TOPIC_NAME_LENGTH if limit == MOST_LOCAL else limit
    assert f"{longest + 1} characters, more than {longest}" in answer["reason"]


@pytest.mark.parametrize("path", ["/t/properties", "/t/subscription/s/properties"])
def test_properties_at_the_limit_and_past_it(path: str) -> None:
    world = World()
    world.connect().open_consumer()
    assert call(world, "PUT", BASE + path, properties(MAX_PROPERTIES_LENGTH))[0] == 204
    assert call(world, "PUT", BASE + path, properties(MAX_PROPERTIES_LENGTH + 1))[0] == 413


@pytest.mark.parametrize("path", [f"{BASE}/t/properties", "/admin/v2/namespaces/public/default/properties"])
def test_properties_do_not_grow_past_the_limit_bit_by_bit(path: str) -> None:
    world = World()
    world.connect().open_consumer()
    assert call(world, "PUT", path, properties(MAX_PROPERTIES_LENGTH))[0] == 204
    status, _, answer = call(world, "PUT", path, b'{"another": ""}')
    assert status == 405
    assert "leave some out" in answer["reason"]


def test_partitions_are_bounded_before_they_are_counted() -> None:
    # covers TN-8: hostile input
    world = World()
    for count in (MAX_PARTITIONS + 1, 2_000_000_000, 2**63):
        status, _, answer = call(world, "PUT", f"{BASE}/p/partitions", str(count).encode())
        assert status == 406
        assert answer["reason"].endswith(f"less than or equal to {MAX_PARTITIONS}")
    assert call(world, "PUT", f"{BASE}/p/partitions", b"2")[0] == 204
    assert call(world, "POST", f"{BASE}/p/partitions", b"2000000000")[0] == 422
    assert call(world, "POST", f"{BASE}/p/partitions", b"3")[0] == 204


def test_new_partitions_with_large_subscriptions_are_bounded_together() -> None:
    # covers PT-7: what one turn writes fits into one write
    world = World()
    assert call(world, "PUT", f"{BASE}/p/partitions", b"1")[0] == 204
    for name in "abcdefgh":
        assert call(world, "PUT", f"{BASE}/p/subscription/{name}")[0] == 204
        path = f"{BASE}/p/subscription/{name}/properties"
        assert call(world, "PUT", path, properties(MAX_PROPERTIES_LENGTH))[0] == 204
    status, _, answer = call(world, "POST", f"{BASE}/p/partitions", b"100")
    assert (status, answer["reason"][:14]) == (413, "99 partitions ")
    assert call(world, "POST", f"{BASE}/p/partitions", b"3")[0] == 204
