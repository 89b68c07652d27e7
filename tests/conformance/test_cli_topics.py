"""`spark-pulsar top` and `topics tree`, against either broker."""

from __future__ import annotations

import json

from typer.testing import CliRunner, Result

from spark_pulsar.cli.main import app
from tests.brokers import Broker
from tests.conformance.schemas import fresh_namespace
from tests.eventually import eventually


def run(broker: Broker, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--admin-url", broker.admin_url])


def namespace_with_topics(broker: Broker) -> str:
    """A namespace with a topic of two partitions, one without, and a subscription with a backlog of three each."""
    namespace = fresh_namespace(broker).removeprefix("/admin/v2/namespaces/")
    parted, plain = f"persistent://{namespace}/parted", f"persistent://{namespace}/plain"
    assert broker.rest("PUT", f"/admin/v2/persistent/{namespace}/parted/partitions", 2)[0] == 204
    client = broker.client()
    for topic in (parted, plain):
        client.subscribe(topic, "sub").close()
        producer = client.create_producer(topic)
        for number in range(3):
            producer.send(b"%d" % number)
    return namespace


def test_the_tree_has_backlogs_and_folds_partitions(broker: Broker) -> None:
    namespace = namespace_with_topics(broker)
    tenant, _, local = namespace.partition("/")
    done = run(broker, "topics", "tree", namespace)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        tenant,
        f"└── {local}",
        "    ├── parted (2 partitions)",
        "    │   └── sub: backlog 3, 0 consumers",
        "    └── plain",
        "        └── sub: backlog 3, 0 consumers",
    ]
    done = run(broker, "topics", "tree", tenant, "-o", "json")
    assert done.exit_code == 0, done.stderr
    [values] = json.loads(done.stdout)  # other tests leave topics of which Apache Pulsar refuses the statistics
    found = [each for each in values["namespaces"] if each["namespace"] == namespace]
    assert [topic["partitions"] for topic in found[0]["topics"]] == [2, 0]
    assert found[0]["topics"][1]["subscriptions"][0]["backlog"] == 3


def test_what_is_not_there(broker: Broker) -> None:
    done = run(broker, "topics", "tree", "public/nowhere")
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    done = run(broker, "top", "--sort", "size")
    assert (done.exit_code, "'size' is not one of in, out, backlog" in done.stderr) == (2, True)


def test_the_table_has_each_topic_once(switched_broker: Broker) -> None:
    broker = switched_broker  # Apache Pulsar renews its statistics once a minute elsewhere
    namespace = namespace_with_topics(broker)

    def rows() -> list[dict[str, object]]:
        done = run(broker, "top", namespace, "-n", "1", "-o", "json", "--sort", "topic")
        assert (done.exit_code, done.stderr) == (0, "")
        return list(json.loads(done.stdout))

    eventually(lambda: [(row["backlog"], row["producers"]) for row in rows()] == [(3, 2), (3, 1)], every_s=0.2)
    first, second = rows()
    assert [first["topic"], second["topic"]] == [f"persistent://{namespace}/parted", f"persistent://{namespace}/plain"]
    assert (first["partitions"], first["consumers"], first["subscriptions"]) == (2, 0, 1)
    assert second["partitions"] == 0
    plain = run(broker, "top", namespace, "--sort", "topic").stdout.splitlines()  # a pipe: once
    assert plain[0].split()[0] == "TOPIC"
    assert plain[1].startswith(f"{namespace}/parted (2)")
    assert plain[2].split()[5] == "3"
    each = run(broker, "top", namespace, "--sort", "topic", "--partitions").stdout
    assert each.count("parted-partition-") == 2
