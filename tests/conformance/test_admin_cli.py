"""`spark-pulsar admin` as a user types it, the commands of the retention cookbook first (ADM-71)."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulsar
import pytest
from typer.testing import CliRunner, Result

from spark_pulsar.cli.main import app
from spark_pulsar.model.policies.policy_table import POLICIES
from tests.brokers import Broker
from tests.conformance.exchange import send_all
from tests.conformance.schemas import B_REQUIRED, B_WITH_DEFAULT, A, fresh_namespace, record, topic_in
from tests.conformance.test_namespaces import fresh
from tests.eventually import eventually

Admin = Callable[..., str]
DISPATCH_RATE = {
    "dispatchThrottlingRateInMsg": 10,
    "dispatchThrottlingRateInByte": 100,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 2,
}


def run(broker: Broker, words: str, *more: str) -> Result:
    """`spark-pulsar admin WORDS MORE`."""
    return CliRunner().invoke(app, ["admin", "--admin-url", broker.admin_url, *words.split(), *more])


@pytest.fixture
def admin(broker: Broker) -> Admin:
    """Runs a command that must succeed; what it printed."""

    def command(words: str, *more: str) -> str:
        done = run(broker, words, *more)
        noted = [line for line in done.stderr.splitlines() if not line.startswith("spark-pulsar: note: ")]
        assert (done.exit_code, noted) == (0, []), (words, done.stderr)
        return done.stdout

    return command


@pytest.fixture
def namespace(admin: Admin) -> str:
    """A tenant and a namespace of the test's own, made by the commands."""
    tenant = fresh("tenant")
    assert admin(f"tenants create {tenant}") == ""
    assert admin(f"namespaces create {tenant}/ns") == ""
    return f"{tenant}/ns"


@pytest.mark.parametrize(
    ("limits", "size_mb", "minutes"),
    [
        ("--size 10G --time 3h", 10240, 180),
        ("-s 1T -t -1", 1 << 20, -1),
        ("--size -1 --time 3h", -1, 180),
        ("--size -1 --time -1", -1, -1),
        ("--size 0 --time 0", 0, 0),
        ("-s 100m -t 2d", 100, 2880),
    ],
)
def test_retention_as_in_the_cookbook(admin: Admin, namespace: str, limits: str, size_mb: int, minutes: int) -> None:
    # covers RET-1, ADM-71
    assert admin(f"namespaces set-retention {namespace} {limits}") == ""
    shown = f'{{\n  "retentionTimeInMinutes" : {minutes},\n  "retentionSizeInMB" : {size_mb}\n}}\n'
    assert admin(f"namespaces get-retention {namespace}") == shown
    assert admin(f"namespaces remove-retention {namespace}") == ""
    assert admin(f"namespaces get-retention {namespace}") == "null\n"


def test_quotas_as_in_the_cookbook(admin: Admin, namespace: str) -> None:
    # covers BQ-1, BQ-2, ADM-71
    admin(f"namespaces set-backlog-quota {namespace} --limit 2G --policy producer_request_hold")
    admin(
        f"namespaces set-backlog-quota {namespace} --limitTime 3600 --policy producer_request_hold --type message_age"
    )
    quotas = json.loads(admin(f"namespaces get-backlog-quotas {namespace}"))
    assert quotas["destination_storage"]["limit"] == 2147483648
    assert quotas["message_age"]["limitTime"] == 3600
    admin(f"namespaces remove-backlog-quota {namespace}")
    assert list(json.loads(admin(f"namespaces get-backlog-quotas {namespace}"))) == ["message_age"]
    admin(f"namespaces remove-backlog-quota {namespace} -t message_age")
    assert json.loads(admin(f"namespaces get-backlog-quotas {namespace}")) == {}
    admin(f"namespaces set-backlog-quota {namespace} -lt 1h -p producer_exception -t message_age")
    assert json.loads(admin(f"namespaces get-backlog-quotas {namespace}"))["message_age"]["limitTime"] == 3600


def test_time_to_live_as_in_the_cookbook(admin: Admin, namespace: str) -> None:
    # covers TTL-1, ADM-71
    admin(f"namespaces set-message-ttl {namespace} --messageTTL 120")
    assert admin(f"namespaces get-message-ttl {namespace}") == "120\n"
    admin(f"namespaces set-message-ttl {namespace} -ttl 2m")
    assert admin(f"namespaces get-message-ttl {namespace}") == "120\n"
    admin(f"namespaces remove-message-ttl {namespace}")
    assert admin(f"namespaces get-message-ttl {namespace}") == "null\n"


def test_clearing_a_backlog_asks_first(broker: Broker, client: pulsar.Client, admin: Admin, namespace: str) -> None:
    # covers CUR-14, ADM-71
    topic = f"persistent://{namespace}/t"
    client.subscribe(topic, "s").close()
    send_all(client.create_producer(topic), ["x"])

    def backlog() -> int:
        stats = json.loads(admin(f"topics stats {topic} -gpb"))
        return int(stats["subscriptions"]["s"]["msgBacklog"])

    asked = CliRunner().invoke(
        app, ["admin", "--admin-url", broker.admin_url, "namespaces", "clear-backlog", namespace], input="n\n"
    )
    assert asked.exit_code == 0
    assert "Are you sure you want to clear the backlog?" in asked.stdout
    assert backlog() == 1
    admin(f"namespaces clear-backlog {namespace} --sub s -force")
    assert backlog() == 0
    send_all(client.create_producer(topic), ["y"])
    bundle = admin(f"topics bundle-range {topic}").strip().strip('"')
    admin(f"namespaces clear-backlog {namespace} --bundle {bundle} --force")
    assert backlog() == 0
    admin(f"namespaces clear-backlog {namespace} -f")
    admin(f"namespaces unload {namespace}")


def test_topics_are_made_and_listed(broker: Broker, admin: Admin, namespace: str) -> None:
    # covers ADM-71
    admin(f"topics create {namespace}/plain")
    admin(f"topics create-partitioned-topic {namespace}/parted -p 2")
    admin(f"topics update-partitioned-topic {namespace}/parted --partitions 3")
    listed = sorted(admin(f"topics list {namespace} --include-system-topic").split())
    prefix = f"persistent://{namespace}"
    mine = [f"{prefix}/parted-partition-{index}" for index in range(3)] + [f"{prefix}/plain"]
    assert [name for name in listed if "/__" not in name] == mine
    assert admin(f"topics list-partitioned-topics {namespace}") == f"{prefix}/parted\n"
    assert json.loads(admin(f"topics get-partitioned-topic-metadata {namespace}/parted"))["partitions"] == 3
    assert admin(f"namespaces topics {namespace}").split()
    assert json.loads(admin(f"topics partitioned-stats {namespace}/parted --per-partition"))["metadata"] == {
        "partitions": 3,
        "deleted": False,
    }
    assert json.loads(admin(f"topics stats-internal {namespace}/plain"))["numberOfEntries"] == 0
    assert admin(f"topics lookup {namespace}/plain") == f"{broker.service_url}\n"
    quarter = zlib.crc32(f"{prefix}/plain".encode()) >> 30
    edges = [*(f"0x{each:x}0000000" for each in (0, 4, 8, 12)), "0xffffffff"]
    assert admin(f"topics bundle-range {namespace}/plain") == f"{edges[quarter]}_{edges[quarter + 1]}\n"
    admin(f"topics unload {namespace}/plain")
    admin(f"topics delete {namespace}/plain")
    admin(f"topics delete-partitioned-topic {namespace}/parted -f")


@pytest.mark.parametrize("group", ["topics", "topicPolicies"])
def test_policies_of_a_topic(admin: Admin, namespace: str, group: str) -> None:
    # covers ADM-67, ADM-71
    topic = f"persistent://{namespace}/t"
    admin(f"topics create {topic}")
    shown: list[tuple[str, str, Any]] = [
        ("retention", "-s 10M -t 1h", {"retentionTimeInMinutes": 60, "retentionSizeInMB": 10}),
        ("message-ttl", "-t 2m", 120),
        ("deduplication", "--enable", True),
        ("deduplication-snapshot-interval", "-i 5", 5),
        ("compaction-threshold", "-t 1M", 1 << 20),
        ("dispatch-rate", "-md 10 -bd 100 -dt 2", DISPATCH_RATE),
        ("subscription-dispatch-rate", "-md 10 -bd 100 -dt 2 -rp", {**DISPATCH_RATE, "relativeToPublishRate": True}),
        ("subscribe-rate", "-sr 3", {"subscribeThrottlingRatePerConsumer": 3, "ratePeriodInSecond": 30}),
    ]
    for name, words, value in shown:
        assert admin(f"{group} get-{name} {topic}") == "null\n"
        admin(f"{group} set-{name} {topic} {words}")
        assert json.loads(admin(f"{group} get-{name} {topic}")) == value
        admin(f"{group} remove-{name} {topic}")
        assert admin(f"{group} get-{name} {topic}") == "null\n"
    if group == "topicPolicies":
        admin(f"{group} set-subscription-dispatch-rate {topic} -s one -md 10 -bd 100 -dt 2")
        assert json.loads(admin(f"{group} get-subscription-dispatch-rate {topic} -s one")) == DISPATCH_RATE
        assert admin(f"{group} get-subscription-dispatch-rate {topic} -s two") == "null\n"
        admin(f"{group} remove-subscription-dispatch-rate {topic} -s one")
        assert admin(f"{group} get-subscription-dispatch-rate {topic} -s one") == "null\n"
    admin(f"{group} set-backlog-quota {topic} -l 1M -p consumer_backlog_eviction")
    applied = json.loads(admin(f"{group} get-backlog-quotas {topic} --applied"))
    assert applied["destination_storage"]["limitSize"] == 1 << 20
    admin(f"{group} remove-backlog-quota {topic}")


def test_delayed_delivery_of_a_namespace(admin: Admin, namespace: str) -> None:
    # covers ADM-71, DEL-2
    admin(f"namespaces set-delayed-delivery {namespace} -d -t 2s")
    found = json.loads(admin(f"namespaces get-delayed-delivery {namespace}"))
    assert (found["active"], found["tickTime"], found["maxDeliveryDelayInMillis"]) == (False, 2000, 0)
    admin(f"namespaces remove-delayed-delivery {namespace}")
    assert admin(f"namespaces get-delayed-delivery {namespace}") == "null\n"


def test_other_policies_of_a_namespace(admin: Admin, namespace: str) -> None:
    # covers ADM-71
    shown: list[tuple[str, str, Any]] = [
        ("deduplication", "-e", True),
        ("deduplication-snapshot-interval", "-i 5", 5),
        ("compaction-threshold", "-t 100M", 100 << 20),
        ("subscription-expiration-time", "-t 5", 5),
        ("dispatch-rate", "-md 10 -bd 100 -dt 2", DISPATCH_RATE),
        (
            "inactive-topic-policies",
            "-d -t 1h -m delete_when_no_subscriptions",
            {
                "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
                "maxInactiveDurationSeconds": 3600,
                "deleteWhileInactive": False,
            },
        ),
        (
            "persistence",
            "-e 1 -w 1 -a 1 -r 2.0",
            {
                "bookkeeperEnsemble": 1,
                "bookkeeperWriteQuorum": 1,
                "bookkeeperAckQuorum": 1,
                "managedLedgerMaxMarkDeleteRate": 2.0,
            },
        ),
    ]
    for name, words, value in shown:
        admin(f"namespaces set-{name} {namespace} {words}")
        assert json.loads(admin(f"namespaces get-{name} {namespace}")) == value
        admin(f"namespaces remove-{name} {namespace}")
        assert admin(f"namespaces get-{name} {namespace}") == "null\n"
    for word, value in (("-e", "true"), ("--disable", "false")):
        admin(f"namespaces set-encryption-required {namespace} {word}")
        assert admin(f"namespaces get-encryption-required {namespace}") == f"{value}\n"
    admin(f"namespaces set-properties {namespace} -p a=1 -p b=2")
    assert json.loads(admin(f"namespaces get-properties {namespace}")) == {"a": "1", "b": "2"}
    admin(f"namespaces clear-properties {namespace}")
    assert admin(f"namespaces get-clusters {namespace}") == "standalone\n"
    assert json.loads(admin(f"namespaces policies {namespace}"))["replication_clusters"] == ["standalone"]
    assert json.loads(admin(f"namespaces bundles {namespace}"))["numBundles"] == 4


@pytest.mark.parametrize(
    ("group", "name", "words"),
    [
        (group, level.word or policy.word, (level.names or policy.options[0].names).split()[1])
        for policy in POLICIES
        for group, level in (("namespaces", policy.namespace), ("topicPolicies", policy.topic))
        if policy.member.startswith("max_") and level is not None
    ],
)
def test_limits(admin: Admin, namespace: str, group: str, name: str, words: str) -> None:
    # covers ADM-71
    about = namespace
    if group == "topicPolicies":
        about = f"persistent://{namespace}/t"
        admin(f"topics create {about}")
    unset = admin(f"{group} get-{name} {about}")
    assert unset == ("0\n" if name == "max-topics-per-namespace" else "null\n")
    admin(f"{group} set-{name} {about} {words} 7")
    assert admin(f"{group} get-{name} {about}") == "7\n"
    admin(f"{group} remove-{name} {about}")
    assert admin(f"{group} get-{name} {about}") == unset


def test_what_comes_into_being_by_itself(admin: Admin, namespace: str) -> None:
    # covers ADM-71
    admin(f"namespaces set-auto-topic-creation {namespace} -e -t partitioned -n 3")
    assert json.loads(admin(f"namespaces get-auto-topic-creation {namespace}"))["defaultNumPartitions"] == 3
    admin(f"namespaces set-auto-topic-creation {namespace} --disable")
    admin(f"namespaces remove-auto-topic-creation {namespace}")
    admin(f"namespaces set-auto-subscription-creation {namespace}")
    creation = json.loads(admin(f"namespaces get-auto-subscription-creation {namespace}"))
    assert creation == {"allowAutoSubscriptionCreation": False}
    admin(f"namespaces remove-auto-subscription-creation {namespace}")
    admin(f"namespaces set-subscription-types-enabled {namespace} -t Exclusive,Shared")
    assert sorted(admin(f"namespaces get-subscription-types-enabled {namespace}").split()) == ["Exclusive", "Shared"]
    admin(f"namespaces remove-subscription-types-enabled {namespace}")


def test_clusters_and_tenants(admin: Admin, namespace: str) -> None:
    # covers ADM-71
    tenant, cluster = namespace.partition("/")[0], fresh("cluster")
    assert tenant in admin("tenants list").split()
    admin(f"tenants update {tenant} -r ops,others -c standalone")
    assert json.loads(admin(f"tenants get {tenant}"))["adminRoles"] == ["ops", "others"]
    assert admin(f"namespaces list {tenant}") == f"{namespace}\n"
    admin(f"namespaces delete {namespace}")
    admin(f"tenants delete {tenant}")
    admin(f"clusters create {cluster} --url http://localhost:1 --broker-url pulsar://localhost:2")
    assert json.loads(admin(f"clusters get {cluster}"))["serviceUrl"] == "http://localhost:1"
    admin(f"clusters update {cluster} --url http://localhost:3")
    assert cluster in admin("clusters list").split()
    admin(f"clusters delete {cluster}")
    assert admin("brokers healthcheck") == "ok\n"
    assert admin("brokers version").strip()


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("namespaces get-retention public/no-such-ns", 1, "Namespace does not exist"),
        ("namespaces set-retention {ns} --size 10M --time 0", 1, "Setting a single time or size limit to 0 is invalid"),
        ("namespaces set-retention {ns} --size 10X --time 1h", 2, "Invalid size '10X'. Valid formats are: (4096, 100K"),
        ("namespaces set-retention {ns} --size 10M --time 1h30m", 2, "Invalid time '1h30m'"),
        ("namespaces set-retention {ns} --size 10M", 2, "Missing option '--time'"),
        ("namespaces set-message-ttl {ns} -ttl -1", 1, "Invalid value for message TTL, message TTL must >= 0"),
        ("namespaces set-backlog-quota {ns}/my-topic -l 1G -p producer_exception", 2, "takes a namespace, not a topic"),
        ("namespaces set-backlog-quota {ns} -l 1G -p nonsense", 2, "Invalid retention policy type 'nonsense'"),
        ("namespaces set-deduplication {ns}", 2, "Need to specify either --enable or --disable"),
        ("namespaces get-retention {ns} --applied", 2, "are for topics"),
        ("topics stats no-such-topic", 1, "Topic persistent://public/default/no-such-topic not found"),
        ("tenants create a%20b -c standalone", 1, "Tenant name is not valid"),
    ],
)
def test_refusals_are_one_line_and_a_status(broker: Broker, namespace: str, words: str, status: int, said: str) -> None:
    done = run(broker, words.format(ns=namespace))
    assert done.exit_code == status
    assert said in " ".join(done.stderr.replace("│", " ").split())
    assert status == 2 or done.stderr.count("\n") == 1


def test_nobody_listens_there() -> None:
    done = CliRunner().invoke(app, ["admin", "--admin-url", "http://127.0.0.1:1", "tenants", "list"])
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert "no answer from http://127.0.0.1:1" in done.stderr


def test_help_names_the_groups() -> None:
    text = CliRunner().invoke(app, ["admin", "--help"]).stdout
    assert all(group in text for group in ("namespaces", "topics", "topicPolicies", "clusters", "tenants", "brokers"))


# ---- schemas


@pytest.fixture
def schema_topic(broker: Broker) -> str:
    return topic_in(fresh_namespace(broker))


def payload(folder: Path, *fields: dict[str, object]) -> str:
    path = folder / f"schema-{len(fields)}-{len(str(fields))}.json"
    path.write_text(json.dumps({"type": "AVRO", "schema": record(*fields).decode(), "properties": {"k": "v"}}))
    return str(path)


def test_schemas(admin: Admin, broker: Broker, schema_topic: str, tmp_path: Path) -> None:
    # covers SC-12, ADM-71
    first, second = payload(tmp_path, A), payload(tmp_path, A, B_WITH_DEFAULT)
    assert run(broker, f"schemas get {schema_topic}").exit_code == 1
    assert admin(f"schemas upload {schema_topic} --filename", first) == "0\n"
    assert admin(f"schemas upload {schema_topic} -f", second) == "1\n"
    latest = json.loads(admin(f"schemas get {schema_topic}"))
    assert latest["version"] == 1
    assert latest["schemaInfo"]["schema"] == json.loads(record(A, B_WITH_DEFAULT))
    shown = json.loads(admin(f"schemas get {schema_topic} -v 0"))
    assert (shown["name"], shown["type"], shown["properties"]) == (schema_topic.rpartition("/")[2], "AVRO", {"k": "v"})
    assert [each["version"] for each in json.loads(admin(f"schemas get {schema_topic} --all-version"))] == [0, 1]
    assert admin(f"schemas version {schema_topic} -f", second) == "1\n"
    assert json.loads(admin(f"schemas compatibility {schema_topic} -f", first))["compatibility"] is True
    refused = run(broker, f"schemas upload {schema_topic} -f", payload(tmp_path, A, B_REQUIRED))
    assert (refused.exit_code, "strategy FULL" in refused.stderr) == (1, True)
    assert admin(f"schemas delete {schema_topic}") == ""
    assert run(broker, f"schemas get {schema_topic}").exit_code == 1
    assert admin(f"schemas delete {schema_topic} --force") == ""


def test_a_file_that_holds_no_json_is_said_so(broker: Broker, schema_topic: str, tmp_path: Path) -> None:
    # covers ADM-71
    (tmp_path / "text").write_text("nothing")
    refused = run(broker, f"schemas upload {schema_topic} -f", str(tmp_path / "text"))
    assert (refused.exit_code, "JSON" in refused.stderr) == (2, True)


def test_schema_policies_of_namespaces(admin: Admin, schema_topic: str) -> None:
    # covers ADM-66, ADM-71
    name = schema_topic.partition("://")[2].rpartition("/")[0]
    assert admin(f"namespaces get-schema-compatibility-strategy {name}") == "UNDEFINED\n"
    assert admin(f"namespaces set-schema-compatibility-strategy {name} -c FORWARD") == ""
    assert admin(f"namespaces get-schema-compatibility-strategy {name}") == "FORWARD\n"
    assert admin(f"namespaces get-schema-autoupdate-strategy {name}") == "null\n"
    assert admin(f"namespaces set-schema-autoupdate-strategy {name} --compatibility Backward") == ""
    assert admin(f"namespaces get-schema-autoupdate-strategy {name}") == "Backward\n"
    assert admin(f"namespaces set-schema-validation-enforce {name} -e") == ""
    assert admin(f"namespaces get-schema-validation-enforce {name}") == "true\n"
    assert admin(f"namespaces set-is-allow-auto-update-schema {name} --disable") == ""
    assert admin(f"namespaces get-is-allow-auto-update-schema {name}") == "false\n"


def test_schema_policies_of_topics(admin: Admin, topic: str) -> None:
    # covers ADM-67, ADM-71
    admin(f"topics create {topic}")
    assert admin(f"topicPolicies get-schema-compatibility-strategy {topic}") == "null\n"
    assert admin(f"topicPolicies get-schema-compatibility-strategy {topic} --applied") == "FULL\n"
    assert admin(f"topicPolicies set-schema-compatibility-strategy {topic} -s BACKWARD") == ""
    eventually(lambda: admin(f"topicPolicies get-schema-compatibility-strategy {topic}") == "BACKWARD\n")
    assert admin(f"topicPolicies remove-schema-compatibility-strategy {topic}") == ""
    assert admin(f"topics set-schema-validation-enforce {topic} --enable") == ""
    eventually(lambda: admin(f"topics get-schema-validation-enforce {topic}") == "true\n")
