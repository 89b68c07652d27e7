"""Rates of dispatch over REST, where Apache Pulsar does otherwise or knows no bound."""

import json

import pytest

from spark_pulsar.admin.policies import policy_routes
from tests.unit.admin.test_app import call
from tests.unit.broker.world import World

NAMESPACES = "/admin/v2/namespaces"
TOPIC = "/admin/v2/persistent/public/default/t"
UNLIMITED = {
    "dispatchThrottlingRateInMsg": -1,
    "dispatchThrottlingRateInByte": -1,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 1,
}
LIMITED = {**UNLIMITED, "dispatchThrottlingRateInMsg": 5}


def body(value: object) -> bytes:
    return json.dumps(value).encode()


def test_one_subscription_may_have_no_limit_where_all_have_one() -> None:
    # covers SUB-7 (levels): Apache Pulsar answers 204 and forgets it
    world = World()
    assert call(world, "PUT", TOPIC)[0] == 204
    assert call(world, "POST", f"{TOPIC}/subscriptionDispatchRate", body(LIMITED))[0] == 204
    assert call(world, "POST", f"{TOPIC}/a%2Fb/dispatchRate", body(UNLIMITED))[0] == 204
    world = world.restart()
    assert call(world, "GET", f"{TOPIC}/a%2Fb/dispatchRate")[2] == UNLIMITED
    assert call(world, "GET", f"{TOPIC}/a%2Fb/dispatchRate?applied=true")[2] == UNLIMITED
    assert call(world, "GET", f"{TOPIC}/c/dispatchRate?applied=true")[2] == LIMITED
    assert call(world, "POST", f"{TOPIC}/a%2Fb/dispatchRate")[0] == 204
    assert call(world, "GET", f"{TOPIC}/a%2Fb/dispatchRate")[2] == UNLIMITED, "without a body nothing changes"
    assert call(world, "DELETE", f"{TOPIC}/a%2Fb/dispatchRate")[0] == 204
    assert call(world, "GET", f"{TOPIC}/a%2Fb/dispatchRate")[2] == ""


def test_what_holds_for_all_clusters_is_a_rate_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers SUB-7, ADM-67
    world = World()
    own = f"{TOPIC}/s/dispatchRate"
    assert call(world, "PUT", TOPIC)[0] == 204
    assert call(world, "POST", f"{own}?isGlobal=true", body(LIMITED))[0] == 204
    assert [call(world, "GET", own)[2], call(world, "GET", f"{own}?isGlobal=true")[2]] == ["", LIMITED]
    assert call(world, "GET", f"{own}?applied=true")[2] == LIMITED
    monkeypatch.setattr(policy_routes, "MOST_NAMES", 2)
    statuses = [call(world, "POST", f"{TOPIC}/s{number}/dispatchRate", body(LIMITED))[0] for number in range(3)]
    assert statuses == [204, 204, 412]
    assert call(world, "POST", f"{TOPIC}/s1/dispatchRate", body(UNLIMITED))[0] == 204, "no new name"


def test_a_namespace_may_be_made_with_the_older_name_of_a_rate() -> None:
    # covers B-4, SUB-7
    world = World()
    older, newer = {"clusterDispatchRate": {"standalone": LIMITED}}, {"topicDispatchRate": {"standalone": UNLIMITED}}
    for number, (made, rate) in enumerate(
        [(older, LIMITED), ({**older, **newer}, UNLIMITED), ({**newer, **older}, UNLIMITED)]
    ):
        assert call(world, "PUT", f"{NAMESPACES}/public/n{number}", body(made))[0] == 204
        assert call(world, "GET", f"{NAMESPACES}/public/n{number}/dispatchRate")[2] == rate
