"""Policies over REST: where this broker is stricter or kinder than Apache Pulsar, levels, rates of dispatch."""

import json
from typing import Any

import pytest

from spark_pulsar.admin.policies import policy_routes
from spark_pulsar.model.policies.policy_table import POLICIES
from tests.unit.admin.test_app import call
from tests.unit.broker.world import World

NAMESPACES = "/admin/v2/namespaces"
OWN = f"{NAMESPACES}/public/default"
ON_TOPICS = f"{NAMESPACES}/grantPermissionsOnTopics"
TOPIC = "/admin/v2/persistent/public/default/t"


def body(value: object) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("method", "path", "sent", "status", "reason"),
    [
        # T-16: Apache Pulsar stores an unknown word as null.
        ("POST", f"{OWN}/inactiveTopicPolicies", {"inactiveTopicDeleteMode": "x"}, 400, "TopicDeleteMode: want one of"),
        ("POST", f"{OWN}/subscriptionTypesEnabled", ["nonsense"], 412, "Unknown subscription type 'nonsense'"),
        ("POST", f"{OWN}/subscriptionTypesEnabled", "Shared", 400, "want a list"),
        # T-13: a null pointer there.
        ("POST", f"{OWN}/backlogQuota", None, 400, "want a JSON object"),
        ("POST", f"{OWN}/retention", None, 400, "want a JSON object"),
        ("POST", f"{OWN}/messageTTL", None, 400, "want a whole number"),
        ("POST", f"{OWN}/deduplication", "maybe", 400, "want true or false"),
        ("POST", f"{OWN}/encryptionRequired", None, 400, "want true or false"),
        # What has no effect here is refused, not kept.
        ("PUT", f"{NAMESPACES}/public/n", {"subscription_auth_mode": "Suffix"}, 400, "want one of None, Prefix"),
        ("PUT", f"{NAMESPACES}/public/n", {"auth_policies": {"namespace_auth": {"a": ["x"]}}}, 400, "'x' is no action"),
        ("POST", f"{OWN}/permissions/a", ["nonsense"], 400, "'nonsense' is no action: want some of produce, consume"),
        ("POST", f"{OWN}/permissions/a", None, 400, "Actions should not be null"),
        ("POST", f"{OWN}/permissions/a", {}, 400, "want a list of actions"),
        ("POST", ON_TOPICS, None, 400, "want a list of at most 10000 topics with roles"),
        ("POST", ON_TOPICS, [None], 400, "want a JSON object"),
        ("POST", ON_TOPICS, [{"role": "a"}], 400, "want the name of a topic, got None"),
        ("POST", ON_TOPICS, [{"topic": "a/b", "role": "a"}], 412, "Topic name is not valid"),
        ("POST", ON_TOPICS, [{"topic": "t"}], 400, "role: want a text"),
        ("POST", ON_TOPICS, [{"topic": "t", "role": "a"}], 400, "want a list of actions, got None"),
        ("POST", ON_TOPICS, [{"topic": "t"}] * 10_001, 400, "want a list of at most 10000 topics with roles"),
        ("POST", f"{OWN}/subscriptionAuthMode", "nonsense", 400, "want one of None, Prefix"),
        ("POST", f"{OWN}/permissions/subscription/s", "a", 400, "want a list of texts"),
        ("DELETE", f"{OWN}/permissions/s/a", None, 404, "Subscription s has no permissions of its own"),
        ("POST", f"{NAMESPACES}/public/nope/permissions/a", ["produce"], 404, "Topic's namespace does not exist"),
        ("POST", f"{NAMESPACES}/public/nope/subscriptionAuthMode", "None", 404, "Namespace does not exist"),
        ("PUT", f"{NAMESPACES}/public/n", {"offload_policies": {}}, 412, "The driver is not"),
        ("PUT", f"{NAMESPACES}/public/n", {"bundles": {"numBundles": 99_999_999}}, 412, "Too many bundles"),
        ("PUT", f"{NAMESPACES}/public/n", {"message_ttl_in_seconds": -1}, 412, "message TTL must >= 0"),
        ("PUT", f"{NAMESPACES}/public/n", {"backlog_quota_map": {"nonsense": {}}}, 400, "is no type of quota"),
        ("POST", f"{OWN}/replicatorDispatchRate", [], 400, "want a JSON object"),
        ("POST", f"{TOPIC}/s/dispatchRate", {"dispatchThrottlingRateInMsg": "x"}, 400, "want a whole number"),
        ("POST", f"{TOPIC}-none/s/dispatchRate", {}, 404, "not found"),
        ("PUT", f"{NAMESPACES}/public/n", {"replicatorDispatchRate": {"standalone": []}}, 400, "want a JSON"),
        ("POST", f"{OWN}/dispatchRate", {"relativeToPublishRate": "x"}, 400, "want true or false"),
        ("POST", f"{TOPIC}/subscribeRate", {"ratePeriodInSecond": "x"}, 400, "want a whole number"),
        ("PUT", f"{NAMESPACES}/public/n", {"topicDispatchRate": {"standalone": 5}}, 400, "want a JSON object"),
        ("POST", f"{TOPIC}/publishRate", {"publishThrottlingRateInMsg": "x"}, 400, "want a whole number"),
        # Kinder.
        ("POST", f"{OWN}/clearBacklog/none", None, 404, "Subscription none not found in namespace public/default"),
        ("DELETE", "/admin/v2/clusters/standalone", None, 412, "is the one that this broker serves"),
        ("POST", "/admin/namespaces/a/b/c/backlogQuota", {}, 404, "a/b/c is no namespace"),
        ("POST", "/admin/v2/tenants/public", {"allowedClusters": ["other"]}, 409, "cannot be taken away"),
    ],
)
def test_refusals(method: str, path: str, sent: object, status: int, reason: str) -> None:
    # covers T-13, T-16, ADM-63, ADM-64, ADM-66
    world = World()
    assert call(world, "PUT", "/admin/v2/clusters/other", b"{}")[0] == 200
    assert call(world, "PUT", TOPIC)[0] == 204
    got, _, answer = call(world, method, path, b"" if sent is None else body(sent))
    assert (got, reason in answer["reason"]) == (status, True), answer


def test_permissions_with_as_many_topics_as_a_namespace_may_have() -> None:
    # covers AU-9, SEC-66
    world = World()
    assert call(world, "PUT", TOPIC)[0] == 204
    wish = {"topic": "t", "role": "a", "actions": ["consume"]}
    assert call(world, "POST", ON_TOPICS, body([wish] * 10_000))[0] == 204
    assert call(world, "GET", f"{TOPIC}/permissions")[2] == {"a": ["consume"]}
    assert call(world, "POST", ON_TOPICS.replace("grant", "revoke"), body([wish, {**wish, "role": "b"}]))[0] == 204
    assert call(world, "GET", f"{TOPIC}/permissions")[2] == {}


def test_unset_is_an_empty_answer() -> None:
    # covers T-4, T-5
    world = World()
    status, headers, text = call(world, "GET", f"{OWN}/retention")
    assert (status, headers["content-length"], text) == (200, "0", "")
    assert "content-type" not in headers
    call(world, "POST", f"{OWN}/messageTTL", b"0")
    assert call(world, "GET", f"{OWN}/messageTTL")[::2] == (200, 0)


@pytest.mark.parametrize("sent", [b"61", b'"61"', b"61.9", b" 61 "])
def test_numbers_come_in_any_form(sent: bytes) -> None:
    # covers T-16
    world = World()
    assert call(world, "POST", f"{OWN}/messageTTL", sent)[0] == 204
    assert call(world, "GET", f"{OWN}/messageTTL")[2] == 61


def test_a_namespace_may_be_made_with_any_policy_that_has_an_effect() -> None:
    # covers B-4
    world = World()
    made = {
        "auth_policies": {"namespace_auth": {"anonymous": ["produce", "consume"]}},
        "replication_clusters": ["standalone"],
        "backlog_quota_map": {"message_age": {"limitTime": 5, "policy": "producer_exception"}},
        "max_producers_per_topic": 3,
        "deduplicationEnabled": True,
        "encryption_required": True,
        "unknown": 1,
    }
    path = f"{NAMESPACES}/public/made"
    assert call(world, "PUT", path, body(made))[0] == 204
    shown = call(world.restart(), "GET", path)[2]
    assert shown["max_producers_per_topic"] == 3
    assert shown["deduplicationEnabled"] is True
    assert shown["encryption_required"] is True
    assert shown["backlog_quota_map"]["message_age"]["limitTime"] == 5
    granted = {"namespace_auth": {"anonymous": ["produce", "consume"]}}
    assert shown["auth_policies"] == granted | {"destination_auth": {}, "subscription_auth_roles": {}}
    assert "unknown" not in shown


def test_a_cluster_knows_where_it_is_reached() -> None:
    # covers ADM-63
    world = World(advertised_address="pulsar.example.com")
    data = call(world, "GET", "/admin/v2/clusters/standalone")[2]
    assert data["serviceUrl"] == "http://pulsar.example.com:8080"
    assert data["brokerServiceUrl"] == "pulsar://pulsar.example.com:6650"


def test_a_deleted_namespace_takes_its_policies_along() -> None:
    # covers ADM-64
    world = World()
    path = f"{NAMESPACES}/public/n"
    for _ in range(2):
        assert call(world, "PUT", path)[0] == 204
        assert call(world, "GET", f"{path}/messageTTL")[2] == ""
        assert call(world, "POST", f"{path}/messageTTL", b"5")[0] == 204
        assert call(world, "DELETE", path)[0] == 204


def applied(world: World, path: str) -> dict[str, Any]:
    status, _, found = call(world, "GET", f"{path}/appliedPolicies")
    assert status == 200
    return dict(found)


def levels(world: World, path: str) -> set[str]:
    return {each["level"] for each in applied(world, path).values()}


def test_the_last_level_wins_and_all_are_told() -> None:
    world = World()
    call(world, "PUT", TOPIC)
    assert levels(world, OWN) == levels(world, TOPIC) == {"broker"}
    ttl = "message_ttl_in_seconds"
    values: dict[str, int] = {"broker": 0}
    for path, level, value in (
        (f"{OWN}/messageTTL", "namespace", b"30"),
        (f"{TOPIC}/messageTTL?isGlobal=true&messageTTL=20", "topicOfAllClusters", b""),
        (f"{TOPIC}/messageTTL?messageTTL=10", "topic", b""),
    ):
        assert call(world, "POST", path, value)[0] == 204
        values[level] = int(value or path[-2:])
        found = applied(world, TOPIC)[ttl]
        assert found == {"value": values[level], "level": level, "values": values}
    of_namespace = {"value": 30, "level": "namespace", "values": {"broker": 0, "namespace": 30}}
    assert applied(world, OWN)[ttl] == of_namespace


def test_every_policy_is_told_where_it_can_be_set() -> None:
    world = World()
    call(world, "PUT", TOPIC)
    assert set(applied(world, TOPIC)) == {policy.member for policy in POLICIES}
    assert set(applied(world, OWN)) == {policy.member for policy in POLICIES if policy.namespace is not None}


def test_what_the_configuration_demands_comes_from_the_broker() -> None:
    world = World(enforce_schemas=True)
    call(world, "POST", f"{OWN}/schemaValidationEnforced", b"false")
    found = applied(world, OWN)["schema_validation_enforced"]
    assert found == {"value": True, "level": "broker", "values": {"broker": True, "namespace": False}}


def test_what_does_not_exist_is_refused() -> None:
    world = World()
    assert call(world, "GET", f"{TOPIC}/appliedPolicies")[0] == 404
    assert call(world, "GET", "/admin/v2/namespaces/public/none/appliedPolicies")[0] == 404


UNLIMITED = {
    "dispatchThrottlingRateInMsg": -1,
    "dispatchThrottlingRateInByte": -1,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 1,
}
LIMITED = {**UNLIMITED, "dispatchThrottlingRateInMsg": 5}


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
