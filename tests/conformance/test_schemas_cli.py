"""`spark-pulsar admin schemas` and the policies of schemas, as a user types them (ADM-71)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.brokers import Broker
from tests.conformance.schemas import B_REQUIRED, B_WITH_DEFAULT, A, fresh_namespace, record, topic_in
from tests.conformance.test_admin_cli import Admin, admin, run
from tests.eventually import eventually

__all__ = ["admin"]


@pytest.fixture
def topic(broker: Broker) -> str:
    return topic_in(fresh_namespace(broker))


def payload(folder: Path, *fields: dict[str, object]) -> str:
    path = folder / f"schema-{len(fields)}-{len(str(fields))}.json"
    path.write_text(json.dumps({"type": "AVRO", "schema": record(*fields).decode(), "properties": {"k": "v"}}))
    return str(path)


def test_schemas(admin: Admin, broker: Broker, topic: str, tmp_path: Path) -> None:
    # covers SC-12, ADM-71
    first, second = payload(tmp_path, A), payload(tmp_path, A, B_WITH_DEFAULT)
    assert run(broker, f"schemas get {topic}").exit_code == 1
    assert admin(f"schemas upload {topic} --filename", first) == "0\n"
    assert admin(f"schemas upload {topic} -f", second) == "1\n"
    latest = json.loads(admin(f"schemas get {topic}"))
    assert latest["version"] == 1
    assert latest["schemaInfo"]["schema"] == json.loads(record(A, B_WITH_DEFAULT))
    shown = json.loads(admin(f"schemas get {topic} -v 0"))
    assert (shown["name"], shown["type"], shown["properties"]) == (topic.rpartition("/")[2], "AVRO", {"k": "v"})
    assert [each["version"] for each in json.loads(admin(f"schemas get {topic} --all-version"))] == [0, 1]
    assert admin(f"schemas version {topic} -f", second) == "1\n"
    assert json.loads(admin(f"schemas compatibility {topic} -f", first))["compatibility"] is True
    refused = run(broker, f"schemas upload {topic} -f", payload(tmp_path, A, B_REQUIRED))
    assert (refused.exit_code, "strategy FULL" in refused.stderr) == (1, True)
    assert admin(f"schemas delete {topic}") == ""
    assert run(broker, f"schemas get {topic}").exit_code == 1
    assert admin(f"schemas delete {topic} --force") == ""


def test_a_file_that_holds_no_json_is_said_so(broker: Broker, topic: str, tmp_path: Path) -> None:
    # covers ADM-71
    (tmp_path / "text").write_text("nothing")
    refused = run(broker, f"schemas upload {topic} -f", str(tmp_path / "text"))
    assert (refused.exit_code, "JSON" in refused.stderr) == (2, True)


def test_policies_of_namespaces(admin: Admin, topic: str) -> None:
    # covers ADM-66, ADM-71
    name = topic.partition("://")[2].rpartition("/")[0]
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


def test_policies_of_topics(admin: Admin, broker: Broker) -> None:
    # covers ADM-67, ADM-71
    topic = broker.topic()
    admin(f"topics create {topic}")
    assert admin(f"topicPolicies get-schema-compatibility-strategy {topic}") == "null\n"
    assert admin(f"topicPolicies get-schema-compatibility-strategy {topic} --applied") == "FULL\n"
    assert admin(f"topicPolicies set-schema-compatibility-strategy {topic} -s BACKWARD") == ""
    eventually(lambda: admin(f"topicPolicies get-schema-compatibility-strategy {topic}") == "BACKWARD\n")
    assert admin(f"topicPolicies remove-schema-compatibility-strategy {topic}") == ""
    assert admin(f"topics set-schema-validation-enforce {topic} --enable") == ""
    eventually(lambda: admin(f"topics get-schema-validation-enforce {topic}") == "true\n")
