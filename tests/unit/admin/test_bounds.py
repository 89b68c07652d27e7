"""Names and properties that come over REST: as long as over the binary protocol, and no longer."""

import json

import pytest

from spark_pulsar.broker.topics.name_limits import MAX_NAME_LENGTH, MAX_PROPERTIES_LENGTH, MAX_TOPIC_NAME_LENGTH
from spark_pulsar.model.limits import MAX_PARTITIONS
from tests.unit.admin.test_app import BASE, call
from tests.unit.broker.world import World

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
