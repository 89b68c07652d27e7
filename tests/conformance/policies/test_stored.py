"""Policies that are stored and answered and change nothing on one node, and the size of a topic's messages."""

from __future__ import annotations

import itertools
import json
import urllib.error
import urllib.request

import pytest

from tests import changes
from tests.brokers import Broker, topic_path
from tests.conformance.exchange import send_all
from tests.conformance.space import Space
from tests.conformance.test_namespaces import fresh, reason
from tests.eventually import eventually
from tests.raw import Frame, RawConnection, entry_bytes

RATE = {
    "dispatchThrottlingRateInMsg": 5,
    "dispatchThrottlingRateInByte": 6,
    "relativeToPublishRate": True,
    "ratePeriodInSecond": 2,
}
NO_RATE = {**dict.fromkeys(RATE, 0), "relativeToPublishRate": False}
TOPIC_DEFAULT_RATE = {**NO_RATE, "ratePeriodInSecond": 1}
DRIVERS = "S3,aws-s3,google-cloud-storage,filesystem,azureblob,aliyun-oss"
OFFLOAD = {
    "managedLedgerOffloadDriver": "aws-s3",
    "managedLedgerOffloadBucket": "b",
    "managedLedgerOffloadThresholdInBytes": 7,
    "managedLedgerOffloadThresholdInSeconds": 8,
    "managedLedgerOffloadDeletionLagInMillis": 9,
    "managedLedgerOffloadMaxThreads": 6,
    "managedLedgerExtraConfigurations": {"a": "b"},
}
SHOWN_OFFLOAD = {
    "offloadersDirectory": "./offloaders",
    "managedLedgerOffloadReadThreads": 2,
    "managedLedgerOffloadPrefetchRounds": 1,
    "s3ManagedLedgerOffloadMaxBlockSizeInBytes": 67108864,
    "s3ManagedLedgerOffloadReadBufferSizeInBytes": 1048576,
    "s3ManagedLedgerOffloadRoleSessionName": "pulsar-s3-offload",
    "gcsManagedLedgerOffloadMaxBlockSizeInBytes": 134217728,
    "gcsManagedLedgerOffloadReadBufferSizeInBytes": 1048576,
    "s3Driver": True,
    "gcsDriver": False,
    "fileSystemDriver": False,
    **OFFLOAD,
}
FILES = {"managedLedgerOffloadDriver": "filesystem"}


def test_the_rate_of_replicators(broker: Broker, namespace: str, topic: str) -> None:
    # covers ADM-50
    for base in (namespace, topic):
        path = f"{base}/replicatorDispatchRate"
        assert broker.rest("GET", path) == (200, "")
        assert broker.rest("POST", path, RATE) == (204, "")
        assert broker.rest("GET", path) == (200, RATE)
        assert broker.rest("POST", path, {}) == (204, "")
        assert broker.rest("GET", path) == (200, NO_RATE)
        assert broker.rest("DELETE", path) == (204, "")
        assert broker.rest("GET", path) == (200, "")
    applied = f"{topic}/replicatorDispatchRate?applied=true"
    assert broker.rest("GET", applied) == (200, TOPIC_DEFAULT_RATE)
    assert broker.rest("POST", f"{namespace}/replicatorDispatchRate", RATE) == (204, "")
    assert broker.rest("GET", applied) == (200, RATE)
    assert broker.rest("GET", namespace)[1]["replicatorDispatchRate"] == {"standalone": RATE}


def test_offload_policies(broker: Broker, namespace: str, topic: str) -> None:
    # covers ADM-52
    for base, removal in ((namespace, "removeOffloadPolicies"), (topic, "offloadPolicies")):
        path = f"{base}/offloadPolicies"
        assert broker.rest("GET", path) == (200, "")
        for wrong, why in (
            ({}, f"The driver is not supported, support value: {DRIVERS}"),
            ({"managedLedgerOffloadDriver": "zz"}, f"The driver is not supported, support value: {DRIVERS}"),
            ({"managedLedgerOffloadDriver": "aws-s3"}, "The bucket must be specified for namespace offload."),
        ):
            assert reason(broker.rest("POST", path, wrong)) == (412, why)
        assert broker.rest("POST", path, {**OFFLOAD, "managedLedgerOffloadMaxThreads": "x"})[0] == 400
        assert broker.rest("POST", path, OFFLOAD) == (204, "")
        assert broker.rest("GET", path) == (200, SHOWN_OFFLOAD)
        assert broker.rest("DELETE", f"{base}/{removal}") == (204, "")
        assert broker.rest("GET", path) == (200, "")
    applied = f"{topic}/offloadPolicies?applied=true"
    assert broker.rest("GET", applied) == (200, "")
    assert broker.rest("POST", f"{namespace}/offloadPolicies", OFFLOAD) == (204, "")
    assert broker.rest("GET", applied) == (200, SHOWN_OFFLOAD)
    assert broker.rest("POST", f"{topic}/offloadPolicies", FILES) == (204, "")
    has_inherited = broker.has(changes.INHERITED_CONFIGURATIONS)
    of_topic = {
        "managedLedgerOffloadDriver": "filesystem",
        "managedLedgerOffloadMaxThreads": 2,
        "managedLedgerExtraConfigurations": SHOWN_OFFLOAD["managedLedgerExtraConfigurations"] if has_inherited else {},
        "s3Driver": False,
        "fileSystemDriver": True,
    }
    assert broker.rest("GET", applied) == (200, {**SHOWN_OFFLOAD, **of_topic})
    assert broker.rest("GET", namespace)[1]["offload_policies"] == SHOWN_OFFLOAD


def test_thresholds_of_offload_policies(broker: Broker, namespace: str) -> None:
    # covers ADM-52
    for name, unset, status, member in (
        ("offloadThreshold", -1, 204, "managedLedgerOffloadThresholdInBytes"),
        ("offloadThresholdInSeconds", -1, 200, "managedLedgerOffloadThresholdInSeconds"),
        ("offloadDeletionLagMs", "", 204, "managedLedgerOffloadDeletionLagInMillis"),
    ):
        path = f"{namespace}/{name}"
        assert broker.rest("GET", path) == (200, unset)
        for value in (60, -60, 0):
            assert broker.rest("PUT", path, value) == (status, "")
            assert broker.rest("GET", path) == (200, value)
        assert broker.rest("PUT", path, "x")[0] == 400
        assert broker.rest("GET", f"{namespace}/offloadPolicies")[1][member] == 0
    assert broker.rest("DELETE", f"{namespace}/offloadDeletionLagMs") == (204, "")
    assert broker.rest("GET", f"{namespace}/offloadDeletionLagMs") == (200, "")
    assert broker.rest("DELETE", f"{namespace}/removeOffloadPolicies") == (204, "")
    assert broker.rest("GET", f"{namespace}/offloadThreshold") == (200, -1)


def test_offloading_a_topic_does_nothing(broker: Broker, topic: str) -> None:
    # covers ADM-52
    none = {"ledgerId": -1, "entryId": -1, "partitionIndex": -1, "batchIndex": -1, "batchSize": 0}
    not_run = {"status": "NOT_RUN", "lastError": "", "firstUnoffloadedMessage": none}
    assert broker.rest("GET", f"{topic}/offload") == (200, not_run)
    assert broker.rest("PUT", f"{topic}/offload", {"ledgerId": 1, "entryId": 0}) == (204, "")
    assert reason(broker.rest("PUT", f"{topic}/offload")) == (400, "messageId is null")
    assert broker.rest("GET", f"{topic}x/offload")[0] == 404


def test_pausing_for_acknowledgements(broker: Broker, namespace: str, topic: str) -> None:
    # covers ADM-50
    for base in (namespace, topic):
        path = f"{base}/dispatcherPauseOnAckStatePersistent"
        assert broker.rest("GET", path) == (200, False)
        assert broker.rest("POST", path) == (204, "")
        assert broker.rest("GET", path) == (200, True)
        assert broker.rest("DELETE", path) == (204, "")
        assert broker.rest("GET", path) == (200, False)


def test_entry_filters_have_names(broker: Broker, namespace: str, topic: str) -> None:
    # covers ADM-54
    for base in (namespace, topic):
        path = f"{base}/entryFilters"
        assert broker.rest("GET", path) == (200, "")
        for wrong in ({}, {"entryFilterNames": ""}, {"entryFilterNames": " , "}):
            assert reason(broker.rest("POST", path, wrong)) == (
                400,
                "entryFilterNames can't be empty. To remove entry filters use the remove method.",
            )
        assert broker.rest("DELETE", path) == (204, "")
    assert broker.rest("GET", f"{topic}/entryFilters?applied=true") == (200, {"entryFilterNames": ""})


def test_entry_filters_are_stored(broker: Broker, namespace: str, topic: str) -> None:
    # covers ADM-54
    if broker.kind != "ours":
        pytest.skip("ADM-54: it knows only filters that are installed")
    for base in (namespace, topic):
        assert broker.rest("POST", f"{base}/entryFilters", {"entryFilterNames": "a,b"}) == (204, "")
        assert broker.rest("GET", f"{base}/entryFilters") == (200, {"entryFilterNames": "a,b"})
    assert broker.rest("GET", namespace)[1]["entryFilters"] == {"entryFilterNames": "a,b"}


def test_bookie_affinity(broker: Broker, namespace: str, topic: str) -> None:
    # covers ADM-50
    assert broker.rest("GET", f"{topic}/stats")[0] == 200  # Apache Pulsar has no such policies before the first use
    path = f"{namespace}/persistence/bookieAffinity"
    groups = {"bookkeeperAffinityGroupPrimary": "g1", "bookkeeperAffinityGroupSecondary": "g2"}
    unset = (200 if broker.has(changes.EMPTY_IS_200) else 204, "")
    assert broker.rest("GET", path) == unset
    assert broker.rest("POST", path, groups) == (204, "")
    assert broker.rest("GET", path) == (200, groups)
    assert "bookieAffinity" not in broker.rest("GET", namespace)[1]
    assert broker.rest("DELETE", path) == (204, "")
    assert broker.rest("GET", path) == unset


def test_a_namespace_is_marked_as_migrated(broker: Broker, namespace: str) -> None:
    # covers ADM-50
    for is_migrated in (True, False):
        assert broker.rest("POST", f"{namespace}/migration", is_migrated) == (204, "")
        assert broker.rest("GET", namespace)[1]["migrated"] is is_migrated
    assert broker.rest("POST", f"{namespace}/migration", "x")[0] == 400


def test_clusters_to_copy_to(broker: Broker) -> None:
    # covers ADM-51
    other, tenant = fresh("c"), fresh("t")
    assert broker.rest("PUT", f"/admin/v2/clusters/{other}", {"serviceUrl": "http://c:80"})[0] == 200
    body = {"allowedClusters": ["standalone", other], "adminRoles": []}
    assert broker.rest("PUT", f"/admin/v2/tenants/{tenant}", body)[0] == 204
    namespace = f"/admin/v2/namespaces/{tenant}/n"
    assert broker.rest("PUT", namespace)[0] == 204
    topic = topic_path(f"persistent://{tenant}/n/t")
    assert broker.rest("PUT", topic)[0] == 204
    try:
        _check_clusters_to_copy_to(broker, namespace, topic, other)
    finally:
        for path in (topic, namespace, f"/admin/v2/tenants/{tenant}", f"/admin/v2/clusters/{other}"):
            broker.rest("DELETE", path)


def _check_clusters_to_copy_to(broker: Broker, namespace: str, topic: str, other: str) -> None:
    both, path = sorted(("standalone", other)), f"{namespace}/allowedClusters"
    assert broker.rest("GET", path) == (200, [])
    assert broker.rest("POST", path, ["standalone"]) == (200, "")
    assert reason(broker.rest("POST", path, []))[0] == 400
    assert reason(broker.rest("POST", path, ["nope", "standalone"])) == (
        403,
        f"Cluster [nope] is not in the list of allowed clusters list for tenant [{namespace.split('/')[4]}]",
    )
    assert reason(broker.rest("POST", f"{namespace}/replication", both))[0] == 400
    assert broker.rest("POST", path, both) == (200, "")
    assert sorted(broker.rest("GET", path)[1]) == both
    assert broker.rest("POST", f"{namespace}/replication", both) == (200, "")
    for shown in (f"{namespace}/replication", f"{topic}/replication?applied=true"):
        assert sorted(broker.rest("GET", shown)[1]) == both
    assert sorted(broker.rest("GET", namespace)[1]["replication_clusters"]) == both
    assert reason(broker.rest("POST", path, ["standalone"]))[0] == 400
    assert broker.rest("POST", f"{namespace}/replication", ["standalone"]) == (200, "")
    refused = reason(broker.rest("POST", f"{namespace}/replication", ["nope", "standalone"]))
    assert refused in ((412, "Invalid replication cluster nope"), (403, "Invalid cluster id: nope"))
    path = f"{topic}/replication"
    assert broker.rest("GET", path) == (200, "")
    assert reason(broker.rest("POST", path, [other])) == (
        412,
        "Can not remove local cluster from the local topic-level replication clusters policy",
    )
    assert reason(broker.rest("POST", path, [])) == (412, "ClusterIds should not be null or empty")
    assert reason(broker.rest("POST", path, ["global"]))[0] == 412
    assert broker.rest("POST", path, ["standalone", "standalone"]) == (204, "")
    assert broker.rest("GET", path) == (200, ["standalone"])
    assert broker.rest("DELETE", path) == (204, "")
    assert broker.rest("GET", path) == (200, "")


def test_shadow_topics(broker: Broker, namespace: str, topic: str) -> None:
    # covers ADM-50
    path, shadow = f"{topic}/shadowTopics", f"persistent://public/{namespace.rpartition('/')[2]}/s"
    assert broker.rest("GET", path) == (200, "")
    assert reason(broker.rest("PUT", path, [shadow])) == (412, f"Shadow topic [{shadow}] not exists.")
    assert reason(broker.rest("PUT", path, [])) == (
        412,
        "Cannot specify empty shadow topics, please use remove command instead.",
    )
    assert broker.rest("PUT", topic_path(shadow))[0] == 204
    assert broker.rest("PUT", path, [shadow]) == (204, "")
    assert broker.rest("GET", path) == (200, [shadow])
    assert broker.rest("DELETE", path) == (204, "")
    assert broker.rest("GET", path) == (200, "")


def test_all_policies_of_a_topic_are_removed(broker: Broker, topic: str) -> None:
    # covers ADM-50
    assert broker.rest("POST", f"{topic}/maxProducers", 4) == (204, "")
    assert broker.rest("DELETE", f"{topic}/policies") == (204, "")
    assert broker.rest("GET", f"{topic}/maxProducers") == (200, "")
    assert broker.rest("DELETE", f"{topic}/policies") == (204, "")
    assert broker.rest("DELETE", f"{topic}x/policies") == (204, "")


def test_subscriptions_are_not_replicated(broker: Broker, topic: str) -> None:
    # covers ADM-58
    name = "persistent://" + "/".join(topic.split("/")[-3:])
    path = f"{topic}/subscription/s/replicatedSubscriptionStatus"
    assert broker.rest("PUT", f"{topic}/subscription/s")[0] == 204
    assert broker.rest("GET", path) == (200, {name: False})
    assert broker.rest("POST", path, False) == (204, "")
    assert broker.rest("POST", path, "x")[0] == 400
    absent = broker.rest("GET", f"{topic}/subscription/none/replicatedSubscriptionStatus")
    assert reason(absent) == (404, f"Subscription none not found for topic {name}")
    live = path.replace("/persistent/", "/non-persistent/")
    assert reason(broker.rest("GET", live)) == (405, "Cannot get replicated subscriptions on non-persistent topics")
    parts = f"{topic}-parts"
    assert broker.rest("PUT", f"{parts}/partitions", 2)[0] == 204
    assert broker.rest("PUT", f"{parts}/subscription/s")[0] == 204
    shown = broker.rest("GET", f"{parts}/subscription/s/replicatedSubscriptionStatus")
    assert shown == (200, {f"{name}-parts-partition-{number}": False for number in range(2)})
    if broker.kind == "ours":
        assert broker.rest("POST", path, True)[0] == 501


# ---- the size of messages ---------------------------------------------------------------------------------------


def test_the_size_of_messages_is_a_policy_of_topics(broker: Broker, topic: str) -> None:
    # covers ADM-55
    path = f"{topic}/maxMessageSize"
    assert broker.rest("GET", path) == (204, "")
    most = 5 * 1024 * 1024
    for value in (1000, 0, most):
        assert broker.rest("POST", path, value) == (204, "")
        assert broker.rest("GET", path) == (200, value)
    for wrong in (-1, most + 1):
        assert reason(broker.rest("POST", path, wrong)) == (
            412,
            "topic-level maxMessageSize must be greater than or equal to 0 and must be smaller than that in the "
            "broker-level",
        )
    assert broker.rest("POST", path, "x")[0] == 400
    assert broker.rest("DELETE", path) == (204, "")
    assert broker.rest("GET", path) == (204, "")


def test_a_message_above_the_size_of_its_topic_is_refused(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers ADM-55
    name = "persistent://" + "/".join(topic.split("/")[-3:])
    raw.produce(name)
    about = {"producer_name": "p", "sequence_id": 0, "publish_time": 1_700_000_000_000}
    room = 1000 - len(entry_bytes(about, b""))
    path = f"{topic}/maxMessageSize"
    assert broker.rest("POST", path, 1000) == (204, "")
    numbers = itertools.count()

    def sent(size: int) -> Frame:
        number = next(numbers)
        raw.send_message(1, number, b"x" * size)
        answer = raw.next_frame(10.0)
        assert answer is not None
        assert answer["sequence_id"] == number
        return answer

    eventually(lambda: sent(room + 1).type == "SEND_ERROR")  # Apache Pulsar acts upon policies a little later
    for size in (room, room + 1, room):
        answer = sent(size)
        assert answer.type == ("SEND_RECEIPT" if size == room else "SEND_ERROR")
        if size > room:
            assert (answer["error"], answer["message"]) == ("NotAllowedError", "Exceed maximum message size")
    assert broker.rest("DELETE", path) == (204, "")
    eventually(lambda: sent(2000).type == "SEND_RECEIPT")


# ---- more copies than there are bookies


THREE = {
    "bookkeeperEnsemble": 3,
    "bookkeeperWriteQuorum": 3,
    "bookkeeperAckQuorum": 2,
    "managedLedgerMaxMarkDeleteRate": 1.0,
}
PATIENCE_S = 180
"""Apache Pulsar tries for most of a minute before it refuses."""


def test_a_topic_that_wants_more_copies_is_not_created(broker: Broker) -> None:
    # covers ADM-75
    space = Space(broker)
    producer = broker.client().create_producer(space.topic)
    assert broker.rest("POST", f"{space.path}/persistence", THREE) == (204, "")
    assert broker.rest("GET", f"{space.path}/persistence") == (200, THREE)
    request = urllib.request.Request(f"{broker.admin_url}{topic_path(space.topic)}-new", method="PUT")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            raise AssertionError(f"created: {answer.status}")
    except urllib.error.HTTPError as error:
        with error:
            status, reason = error.code, json.loads(error.read())["reason"]
    assert (status, "Not enough" in reason) == (500, True), reason
    send_all(producer, ["a topic that exists goes on"])
