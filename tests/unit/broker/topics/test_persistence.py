"""A policy that wants more copies than one disk can keep."""

from __future__ import annotations

from tests.unit.admin.test_app import call
from tests.unit.broker.world import TOPIC, World, entry

NAMESPACE = "/admin/v2/namespaces/public/default/persistence"
BASE = "/admin/v2/persistent/public/default"
THREE = b'{"bookkeeperEnsemble":3,"bookkeeperWriteQuorum":3,"bookkeeperAckQuorum":2,"managedLedgerMaxMarkDeleteRate":1}'


def test_nothing_is_created_that_wants_more_copies_than_there_can_be() -> None:
    world = World()
    client = world.connect()
    client.open_producer()
    assert call(world, "POST", NAMESPACE, THREE)[0] == 204
    for path, body in ((f"{BASE}/new", b""), (f"{BASE}/new/partitions", b"3")):
        status, _, answer = call(world, "PUT", path, body)
        assert (status, "wants 3 (bookkeeperEnsemble)" in answer["reason"]) == (500, True), answer
    assert list(world.state.topics_by_name) == [TOPIC]
    assert not world.state.partitioned
    client.publish(1, entry("goes on"))
    assert len(client.receipts()) == 1
    restarted = world.restart()
    assert restarted.connect().open_producer().producer_name == "p"
    assert call(restarted, "DELETE", NAMESPACE)[0] == 204
    assert call(restarted, "PUT", f"{BASE}/new/partitions", b"3")[0] == 204


def test_partitions_of_a_topic_whose_own_policy_wants_more_do_not_grow() -> None:
    world = World()
    assert call(world, "PUT", f"{BASE}/t/partitions", b"1")[0] == 204
    assert call(world, "POST", f"{BASE}/t/persistence", THREE)[0] == 204
    assert call(world, "POST", f"{BASE}/t/partitions", b"2")[0] == 500
    assert call(world, "GET", f"{BASE}/t/partitions")[2]["partitions"] == 1
