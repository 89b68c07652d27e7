"""`spark-pulsar move` between two brokers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pulsar.schema import AvroSchema, Record, String
from typer.testing import CliRunner, Result

from spark_pulsar.cli.main import app
from spark_pulsar.model.policies.policy_table import POLICIES
from tests.brokers import Broker, topic_path
from tests.eventually import eventually
from tests.move.conftest import Ways
from tests.move.policy_values import VALUES
from tests.raw import batch_payload


class Old(Record):
    """A first version."""

    name = String()


class New(Record):
    """A second one."""

    name = String()
    more = String(default="")


def run(ways: Ways, positions: Path, *words: str) -> Result:
    """Runs the command."""
    return CliRunner().invoke(app, [*words_of(ways, positions), *words])


def words_of(ways: Ways, positions: Path) -> list[str]:
    """The words of the command."""
    urls = ["--from", ways.source.service_url, "--from-admin", ways.source.admin_url]
    urls += ["--to", ways.target.service_url, "--to-admin", ways.target.admin_url]
    return ["move", *urls, "--positions", str(positions)]


def moved(ways: Ways, positions: Path, namespace: str) -> dict[str, list[dict[str, Any]]]:
    """Moves a namespace, after which nothing differs; the report."""
    done = run(ways, positions, "--namespace", namespace, "-o", "json")
    assert done.stdout, (done.stderr, done.exception)
    report: dict[str, list[dict[str, Any]]] = json.loads(done.stdout)
    rows = [*report["partitions"], *report["subscriptions"]]
    assert ([row for row in rows if row["result"] != "equal"], report["differences"]) == ([], [])
    assert done.exit_code == 0
    return report


@pytest.fixture
def namespace(ways: Ways) -> str:
    """A namespace of the source."""
    return ways.source.namespace()


def set_policy(broker: Broker, path: str, value: Any, method: str = "POST") -> None:
    """Sets a policy."""
    status, answer = broker.rest(method, path, value)
    assert status in (200, 204), (path, answer)


# covers MOVE-6
def test_topics_move_with_their_partitions_schemas_and_policies(ways: Ways, namespace: str, tmp_path: Path) -> None:
    path = f"/admin/v2/namespaces/{namespace}"
    parted, plain = f"persistent://{namespace}/parted", f"persistent://{namespace}/plain"
    set_policy(ways.source, f"{path}/retention", {"retentionTimeInMinutes": 7, "retentionSizeInMB": 70})
    set_policy(ways.source, f"{path}/schemaCompatibilityStrategy", "ALWAYS_COMPATIBLE", "PUT")
    quota = {"limitSize": 1_000_000, "limitTime": -1, "policy": "producer_exception"}
    set_policy(ways.source, f"{path}/backlogQuota", quota)
    assert ways.source.rest("PUT", f"{topic_path(parted)}/partitions", 3)[0] == 204
    client = ways.source.client()
    for schema, names in ((AvroSchema(Old), "ab"), (AvroSchema(New), "cd")):
        producer = client.create_producer(parted, schema=schema)
        for name in names:
            producer.send(schema._record_cls(name=name), partition_key=name)
        producer.close()
    client.create_producer(plain).send(b"plain")
    set_policy(ways.source, f"{topic_path(plain)}/maxConsumers", 3)
    set_policy(ways.source, f"{topic_path(plain)}/properties", {"owner": "ops"}, "PUT")
    assert ways.source.rest("PUT", f"/admin/v2/non-persistent/{namespace}/fleeting/partitions", 2)[0] == 204
    assert ways.source.rest("POST", f"{topic_path(plain)}/terminate")[0] == 200
    set_policy(ways.source, f"{path}/messageTTL", 3_600)

    set_policy(ways.source, f"{path}/properties", {"team": "core"}, "PUT")
    moved(ways, tmp_path, namespace)
    report = moved(ways, tmp_path, namespace)  # a second run finds all that the first one has ended
    assert {row["topic"] for row in report["partitions"]} == {plain, *(f"{parted}-partition-{n}" for n in range(3))}
    assert sum(row["messages"] for row in report["partitions"]) == 5
    assert all(row["checksum"] == row["checksum of the copy"] for row in report["partitions"])
    target = ways.target
    assert target.rest("GET", f"{topic_path(parted)}/partitions")[1]["partitions"] == 3
    assert target.rest("GET", f"/admin/v2/non-persistent/{namespace}/fleeting/partitions")[1]["partitions"] == 2
    assert target.rest("GET", f"{path}/messageTTL")[1] == 3_600
    assert target.rest("GET", f"{path}/properties")[1] == {"team": "core"}
    assert target.rest("GET", f"{path}/retention")[1] == {"retentionTimeInMinutes": 7, "retentionSizeInMB": 70}
    assert target.rest("GET", f"{path}/inactiveTopicPolicies")[1] in ("", None)
    assert target.rest("GET", f"{path}/backlogQuotaMap")[1]["destination_storage"]["limitSize"] == 1_000_000
    assert target.rest("GET", f"{topic_path(plain)}/maxConsumers")[1] == 3
    assert target.rest("GET", f"{topic_path(plain)}/properties")[1] == {"owner": "ops"}
    with pytest.raises(pulsar.TopicTerminated):
        target.client().create_producer(plain)
    listed = [of.rest("GET", f"/admin/v2/schemas/{namespace}/parted/schemas")[1] for of in ways]
    assert [shown(schemas) for schemas in listed] == [shown(listed[0])] * 2
    assert len(shown(listed[0])) == 2
    reader = target.client().subscribe(parted, "s", initial_position=EARLIEST)
    received = [reader.receive(10_000) for _ in range(4)]
    versions = {message.partition_key(): message.schema_version() for message in received}
    assert versions["a"] == versions["b"] != versions["c"] == versions["d"]
    assert "spark-pulsar-move" not in target.stats(plain)["subscriptions"]


EARLIEST = pulsar.InitialPosition.Earliest


def shown(schemas: Any) -> list[Any]:
    """Version, type and definition of each schema of a topic."""
    return [(one["version"], one["type"], json.loads(one["data"])) for one in schemas["getSchemaResponses"]]


# covers MOVE-7
def test_subscriptions_keep_their_exact_state(ways: Ways, namespace: str, tmp_path: Path) -> None:
    topic = f"persistent://{namespace}/subscribed"
    raw = ways.source.raw()
    raw.produce(topic)
    for kind in ("Exclusive", "Shared", "Failover", "Key_Shared"):
        raw.subscribe(topic, subscription=kind, subType=kind, consumer_id=len(kind))
        raw.request("CLOSE_CONSUMER", consumer_id=len(kind))
    assert ways.source.rest("PUT", f"{topic_path(topic)}/subscription/Shared/properties", {"a": "b"})[0] == 204
    ids = []
    for number in range(8):
        raw.send_message(1, number, b"%d" % number)
        ids.append(raw.expect("SEND_RECEIPT").id)
    batch = {"num_messages_in_batch": 5}
    raw.send_message(1, 8, batch_payload([b"a", b"b", b"c", b"d", b"e"], 8), metadata=batch, num_messages=5)
    ids.append(raw.expect("SEND_RECEIPT").id)
    later = {"deliver_at_time": 4_000_000_000_000}
    raw.send_message(1, 13, b"later", metadata=later)
    raw.expect("SEND_RECEIPT")
    for kind in ("Exclusive", "Shared", "Failover", "Key_Shared"):
        raw.subscribe(topic, subscription=kind, subType=kind, consumer_id=20 + len(kind))
        raw.ack(ids[8] | {"ack_set": [0b01010]}, consumer_id=20 + len(kind))
        raw.ack(ids[0], ids[1], ids[3], ids[4], ids[6], consumer_id=20 + len(kind))
        raw.request("CLOSE_CONSUMER", consumer_id=20 + len(kind))

    report = moved(ways, tmp_path, namespace)
    rows = {row["subscription"]: row for row in report["subscriptions"]}
    assert set(rows) == {"Exclusive", "Shared", "Failover", "Key_Shared"}
    assert {(row["acknowledged"], row["holes"], row["parts"]) for row in rows.values()} == {(5, 2, 1)}
    present = ways.target.stats(topic)["subscriptions"]
    left = "None" if ways.target.kind == "ours" else "Exclusive"  # ours has none without consumers (SUB-1)
    assert {of["type"] for of in present.values()} == {left}
    assert present["Shared"]["subscriptionProperties"] == {"a": "b"}
    reader = ways.target.raw()
    for name in rows:
        reader.subscribe(topic, subscription=name, subType=name, consumer_id=len(name), permits=100)
        frames = reader.expect_messages(4 if "Shared" in name else 5)
        assert [frame.payload for frame in frames[:3]] == [b"2", b"5", b"7"]
        assert frames[3]["ack_set"] == [0b01010]
    reader.expect_no_message()  # of the Shared ones: delayed messages are still delayed


# covers MOVE-6
def test_every_policy_is_moved(ways: Ways, namespace: str, tmp_path: Path) -> None:
    topic = f"persistent://{namespace}/limited"
    assert ways.source.rest("PUT", topic_path(topic))[0] == 204
    for policy in POLICIES:
        for level, path in ((policy.namespace, f"/admin/v2/namespaces/{namespace}"), (policy.topic, topic_path(topic))):
            if level is not None and level.path in VALUES:
                value, query = VALUES[level.path], f"?{level.parameter}={VALUES[level.path]}" if level.parameter else ""
                set_policy(ways.source, f"{path}/{level.path}{query}", None if query else value, level.method)
    moved(ways, tmp_path, namespace)
    present = ways.target.rest("GET", f"{topic_path(topic)}/subscriptionTypesEnabled")[1]
    assert sorted(present) == ["Exclusive", "Failover", "Shared"]


# covers MOVE-6
def test_roles_may_do_the_same(ways: Ways, namespace: str, tmp_path: Path) -> None:
    topic, path = f"persistent://{namespace}/granted", f"/admin/v2/namespaces/{namespace}"
    assert ways.source.rest("PUT", topic_path(topic))[0] == 204
    set_policy(ways.source, f"{path}/permissions/app", ["produce", "consume"])
    set_policy(ways.source, f"{topic_path(topic)}/permissions/other", ["consume"])
    moved(ways, tmp_path, namespace)
    of_namespace = ways.target.rest("GET", f"{path}/permissions")[1]
    assert {role: sorted(actions) for role, actions in of_namespace.items()} == {"app": ["consume", "produce"]}
    assert ways.target.rest("GET", f"{topic_path(topic)}/permissions")[1]["other"] == ["consume"]
    set_policy(ways.target, f"{path}/permissions/stranger", ["produce"])
    done = run(ways, tmp_path, "--namespace", namespace, "-o", "json")
    assert done.exit_code == 1
    (difference,) = json.loads(done.stdout)["differences"]
    assert (difference["what"], difference["target"]) == ("permissions of stranger", ["produce"])


# covers MOVE-6, MOVE-8
def test_a_compacted_topic_is_moved_whole_and_compacted_anew(ways: Ways, namespace: str, tmp_path: Path) -> None:
    topic = f"persistent://{namespace}/compacted"
    producer = ways.source.client().create_producer(topic)
    for number in range(4):
        producer.send(b"%d" % number, partition_key="k")
    compacted(ways.source, topic, "PUT")
    assert moved(ways, tmp_path, namespace)["partitions"][0]["messages"] == 4
    compacted(ways.target, topic)
    reader = ways.target.client().create_reader(topic, pulsar.MessageId.earliest, is_read_compacted=True)
    assert (reader.read_next(10_000).data(), reader.has_message_available()) == (b"3", False)
    whole = ways.target.client().create_reader(topic, pulsar.MessageId.earliest)
    assert whole.read_next(10_000).data() == b"0"


def compacted(broker: Broker, topic: str, *methods: str) -> None:
    """Compacts a topic, or waits until it was."""
    for method in methods:
        assert broker.rest(method, f"{topic_path(topic)}/compaction")[0] == 204
    eventually(lambda: broker.rest("GET", f"{topic_path(topic)}/compaction")[1]["status"] == "SUCCESS")


# covers MOVE-2, MOVE-6
def test_a_move_that_is_killed_goes_on(ways: Ways, namespace: str, tmp_path: Path) -> None:
    topics = [f"persistent://{namespace}/t{number}" for number in range(3)]
    for topic in topics:
        producer = ways.source.client().create_producer(topic, block_if_queue_full=True)
        ways.source.client().subscribe(topic, "s").close()
        for number in range(1_500):
            producer.send_async(b"%d" % number, lambda *_: None)
        producer.flush()
    with subprocess.Popen(
        [sys.executable, "-m", "spark_pulsar", *words_of(ways, tmp_path), "--namespace", namespace]
    ) as killed:
        path = f"{topic_path(topics[0])}/internalStats"
        eventually(lambda: has_entries(ways.target.rest("GET", path)[1]), every_s=0.002)
        killed.kill()
    report = moved(ways, tmp_path, namespace)
    assert [row["messages"] for row in report["partitions"]] == [1_500] * 3
    assert [ways.target.backlog(topic) for topic in topics] == [1_500] * 3


def has_entries(internal_stats: Any) -> bool:
    """Whether the statistics of a topic, if it is there, say that it has entries."""
    return isinstance(internal_stats, dict) and internal_stats.get("numberOfEntries", 0) > 0


# covers MOVE-7
def test_parts_of_batches_behind_a_connected_consumer_are_a_difference(
    ways: Ways, namespace: str, tmp_path: Path
) -> None:
    topic = f"persistent://{namespace}/connected"
    raw = ways.source.raw()
    raw.subscribe(topic)
    ways.source.raw().send_batch(topic, 3)
    done = run(ways, tmp_path, "--namespace", namespace, "-o", "json")
    assert done.exit_code == 1
    assert "consumers of subscription s are connected" in done.stderr
    (row,) = json.loads(done.stdout)["subscriptions"]
    assert "acknowledged parts of batches are not known" in row["result"]
    raw.request("CLOSE_CONSUMER", consumer_id=1)
    moved(ways, tmp_path, namespace)


# covers MOVE-5, MOVE-6
def test_producers_of_a_namespace_that_deduplicates_are_recognised(ways: Ways, namespace: str, tmp_path: Path) -> None:
    set_policy(ways.source, f"/admin/v2/namespaces/{namespace}/deduplication", True)
    topic = f"persistent://{namespace}/unique"
    producer = ways.source.client().create_producer(topic, producer_name="mine")
    for number in range(10):
        producer.send(b"%d" % number)
    producer.close()
    assert moved(ways, tmp_path, namespace)["partitions"][0]["messages"] == 10
    assert ways.target.client().create_producer(topic, producer_name="mine").last_sequence_id() == 9


# covers MOVE-6
def test_a_dry_run_names_what_cannot_be_moved_and_changes_nothing(ways: Ways, namespace: str, tmp_path: Path) -> None:
    topic = f"persistent://{namespace}/parted"
    assert ways.source.rest("PUT", f"{topic_path(topic)}/partitions", 3)[0] == 204
    done = run(ways, tmp_path, "--namespace", namespace, "--dry-run", "-o", "text")
    assert (done.exit_code, done.stdout.split("\t")[:2]) == (0, [topic, "3"]), done.stderr
    assert ways.target.rest("GET", f"/admin/v2/namespaces/{namespace}")[0] == 404
    assert ways.target.rest("PUT", f"/admin/v2/namespaces/{namespace}")[0] == 204
    assert ways.target.rest("PUT", f"{topic_path(topic)}/partitions", 2)[0] == 204
    for words in (("--dry-run",), ()):
        done = run(ways, tmp_path, "--namespace", namespace, *words)
        assert done.exit_code == 1
        assert "has 3 partitions in the source and 2 in the target" in done.stderr


# covers MOVE-6
def test_a_move_that_differs_ends_with_status_1(ways: Ways, namespace: str, tmp_path: Path) -> None:
    topic, other = f"persistent://{namespace}/differs", f"persistent://{namespace}/other"
    for name in (topic, other):
        ways.source.client().create_producer(name).send(b"mine")
    assert ways.target.rest("PUT", f"/admin/v2/namespaces/{namespace}")[0] == 204
    ways.target.client().create_producer(topic).send(b"theirs")
    done = run(ways, tmp_path, "--namespace", namespace, "--topics", "diff*", "-o", "json")
    assert done.exit_code == 1
    (row,) = json.loads(done.stdout)["partitions"]
    assert "only an empty topic" in row["result"]
    assert ways.target.rest("GET", f"{topic_path(other)}/stats")[0] == 404
    assert [row["what"] for row in json.loads(done.stdout)["differences"]] == ["policies and permissions"]


# covers MOVE-6
def test_both_sides_may_be_profiles(
    ways: Ways, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name, broker in (("edge", ways.source), ("prod", ways.target)):
        words = ["profile", "add", name, "--service-url", broker.service_url, "--admin-url", broker.admin_url]
        assert CliRunner().invoke(app, words).exit_code == 0
    assert ways.source.rest("PUT", topic_path(f"persistent://{namespace}/empty"))[0] == 204
    command = ["move", "--from", "edge", "--to", "prod", "--namespace", namespace, "--positions", str(tmp_path / "p")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.stderr
    assert ways.target.rest("GET", f"{topic_path(f'persistent://{namespace}/empty')}/stats")[0] == 200
    for words, text in (
        (["--from", "nowhere", "--to", "prod"], "no profile 'nowhere'"),
        (["--from", ways.source.service_url, "--to", "prod"], "--from-admin"),
        (["--from", "edge", "--to", "prod", "--to-admin", ways.target.admin_url], "the profile prod has the address"),
    ):
        done = CliRunner().invoke(app, ["move", *words])
        assert (done.exit_code, text in done.stderr) == (2, True), done.stderr


# covers MOVE-6
def test_a_second_move_adds_what_has_come_since(ways: Ways, namespace: str, tmp_path: Path) -> None:
    topic = f"persistent://{namespace}/grows"
    producer = ways.source.client().create_producer(topic)
    ways.source.client().subscribe(topic, "s").close()
    for round_ in range(2):
        producer.send(b"%d" % round_)
        assert moved(ways, tmp_path, namespace)["partitions"][0]["messages"] == round_ + 1
    assert ways.target.backlog(topic) == 2
    ways.target.client().subscribe(topic, "s")  # in the way of its state
    producer.send(b"2")
    done = run(ways, tmp_path, "--namespace", namespace, "-o", "json")
    (row,) = json.loads(done.stdout)["subscriptions"]
    assert (done.exit_code, "onsumer" in row["result"]) == (1, True), row
    assert len([name for name in ways.target.stats(topic)["subscriptions"] if name != "s"]) == 0
