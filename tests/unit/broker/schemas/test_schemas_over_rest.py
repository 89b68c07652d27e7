"""Policies of schemas, and schemas over REST (SC-4, SC-6, SC-7, SC-12)."""

import json

import pytest

from spark_pulsar.broker.schemas import registry
from spark_pulsar.broker.topics import lifecycle
from tests.unit.admin.test_app import call
from tests.unit.broker.schemas.records import A, record
from tests.unit.broker.schemas.test_registry import NAME, REST, post
from tests.unit.broker.world import QUIET, World

# ---- policies ---------------------------------------------------------------------------------------------------


def test_strategies_of_a_topic_over_its_namespaces_over_the_configuration() -> None:
    # covers SC-4, ADM-66
    world = World(schema_compatibility="FORWARD", **QUIET)
    own, topic = "/admin/v2/namespaces/public/default", "/admin/v2/persistent/public/default/t"
    world.ask(lambda core: lifecycle.create(core, NAME))

    def strategy() -> str:
        return str(registry.strategy_of(world.core, NAME))

    assert strategy() == "FORWARD"
    assert call(world, "GET", f"{own}/schemaAutoUpdateCompatibilityStrategy")[0] == 204
    assert call(world, "PUT", f"{own}/schemaAutoUpdateCompatibilityStrategy", b'"AutoUpdateDisabled"')[0] == 204
    assert strategy() == "ALWAYS_INCOMPATIBLE"
    assert call(world, "GET", f"{own}/schemaCompatibilityStrategy")[2] == "UNDEFINED"
    assert call(world, "PUT", f"{own}/schemaCompatibilityStrategy", b'"BACKWARD"')[0] == 204
    assert strategy() == "BACKWARD"
    assert call(world, "GET", f"{topic}/schemaCompatibilityStrategy")[2] == ""
    assert call(world, "GET", f"{topic}/schemaCompatibilityStrategy?applied=true")[2] == "BACKWARD"
    assert call(world, "PUT", f"{topic}/schemaCompatibilityStrategy", b'"FULL"')[0] == 204
    assert strategy() == "FULL"
    assert call(world, "DELETE", f"{topic}/schemaCompatibilityStrategy")[0] == 204
    assert call(world, "PUT", f"{own}/schemaCompatibilityStrategy", b'"UNDEFINED"')[0] == 204
    assert strategy() == "ALWAYS_INCOMPATIBLE"
    assert call(world, "PUT", f"{own}/schemaCompatibilityStrategy", b'"NONSENSE"')[0] == 400
    assert call(world, "PUT", f"{own}/schemaAutoUpdateCompatibilityStrategy", b'"Nonsense"')[0] == 400


def test_a_namespace_may_be_made_with_policies_of_schemas() -> None:
    # covers ADM-65
    world = World(allow_schema_updates=False, **QUIET)
    path = "/admin/v2/namespaces/public/n"
    made = {"schema_compatibility_strategy": "FORWARD", "schema_validation_enforced": True}
    assert call(world, "PUT", path, json.dumps(made).encode())[0] == 204
    assert call(world, "GET", path)[2]["schema_compatibility_strategy"] == "FORWARD"
    assert call(world, "GET", f"{path}/schemaValidationEnforced")[2] is True
    assert call(world, "GET", f"{path}/isAllowAutoUpdateSchema")[2] is False
    assert call(world, "POST", f"{path}/isAllowAutoUpdateSchema", b"true")[0] == 204
    assert call(world, "GET", f"{path}/isAllowAutoUpdateSchema")[2] is True


# ---- REST -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b'{"type":"AVRO"}', 400),
        (b'{"schema":""}', 400),
        (b'{"type":"NOPE","schema":""}', 422),
        (b'{"type":"AVRO","schema":"{"}', 422),
        (b'{"type":"AUTO_CONSUME","schema":""}', 422),
        (b'{"type":"KEY_VALUE","schema":"xx"}', 422),
        (b'{"type":"KEY_VALUE","schema":"{}"}', 422),
        (b'{"type":"STRING","schema":"","properties":[]}', 400),
    ],
)
def test_bodies_that_are_no_schema(world: World, body: bytes, status: int) -> None:
    # covers SC-12
    for where in ("schema", "compatibility"):
        got, _, answer = call(world, "POST", f"{REST}/{where}", body)
        assert (got, bool(answer["reason"])) == (status, True)


def test_key_and_value_travel_as_one_json_text(world: World) -> None:
    # covers SC-12, SC-2
    text = '{"key":"","value":{"type":"record","name":"ü","fields":[]}}'
    properties = {"key.schema.type": "STRING", "value.schema.type": "AVRO"}
    body = json.dumps({"type": "KEY_VALUE", "schema": text, "properties": properties}).encode()
    assert call(world, "POST", f"{REST}/schema", body)[2] == {"version": {"version": 0}}
    shown = call(world, "GET", f"{REST}/schema/0")[2]
    assert (shown["data"], shown["properties"]) == (text, properties)
    assert call(world, "POST", f"{REST}/version", body)[2] == {"version": 0}


def test_paths_of_versions_and_namespaces_that_are_not_there(world: World) -> None:
    # covers SC-12
    post(world, record(A))
    assert [call(world, "GET", f"{REST}/schema/{each}")[0] for each in ("0", "1", "-1", "x")] == [200, 404, 404, 404]
    missing = "/admin/v2/schemas/public/none/t"
    body = json.dumps({"type": "STRING", "schema": ""}).encode()
    assert call(world, "POST", f"{missing}/schema", body)[0] == 404
    assert call(world, "DELETE", f"{missing}/schema")[0] == 404
    assert call(world, "POST", f"{missing}/compatibility", body)[0] == 404
    assert post(world, b"x", where="version")[1] == {"version": -1}
