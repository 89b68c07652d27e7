"""Members of statistics and of other answers that tools read: each that Apache Pulsar has is there, on both brokers.

`members_of_apache_pulsar.json` has those that 4.0.8 and 4.2.4 showed for the topics of `prepared`. To record them, run
this module with a version and the addresses of an Apache Pulsar that runs:
`python -m tests.conformance.test_statistics_members 4.2.4 pulsar://HOST:PORT http://HOST:PORT`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

from tests.apache_pulsar.start import chosen_version
from tests.brokers import Broker, topic_path
from tests.conformance.exchange import receive, send_all

RECORD = Path(__file__).parent / "members_of_apache_pulsar.json"
NAMED = ("subscriptions", "cursors", "partitions", "bucketDelayedIndexStats", "cursorDetails")
"""Members whose own members are names."""
LEFT_OUT = {
    "internal stats .ledgers[].metadata"  # a text that differs by version
}
TYPES = (
    pulsar.ConsumerType.Exclusive,
    pulsar.ConsumerType.Shared,
    pulsar.ConsumerType.KeyShared,
    pulsar.ConsumerType.Failover,
)


def prepared(broker: Broker) -> dict[str, str]:
    """The paths to compare, by name, of topics with all kinds of clients that have done something."""
    namespace = broker.namespace()
    plain, parted = f"persistent://{namespace}/plain", f"persistent://{namespace}/parted"
    volatile = f"non-persistent://{namespace}/volatile"
    assert broker.rest("PUT", f"{topic_path(parted)}/partitions", 1)[0] == 204
    client = broker.client()
    for topic in (plain, parted, volatile):
        consumers = [client.subscribe(topic, f"s{number}", kind) for number, kind in enumerate(TYPES)]
        send_all(client.create_producer(topic, properties={"a": "b"}), ["0", "1", "2"])
        if topic != volatile:
            consumers[1].acknowledge(receive(consumers[1], 3)[1])
    return {
        "stats": f"{topic_path(plain)}/stats",
        "internal stats": f"{topic_path(plain)}/internalStats?metadata=true",
        "internal info": f"{topic_path(plain)}/internal-info",
        "partitioned stats": f"{topic_path(parted)}/partitioned-stats",
        "partitioned internal stats": f"{topic_path(parted)}/partitioned-internalStats",
        "last message id": f"{topic_path(plain)}/lastMessageId",
        "non-persistent stats": f"{topic_path(volatile)}/stats",
        "non-persistent internal stats": f"{topic_path(volatile)}/internalStats",
        "namespace": f"/admin/v2/namespaces/{namespace}",
        "cluster": "/admin/v2/clusters/standalone",
    }


def members_in(value: Any, place: str) -> Iterator[str]:
    """Yields the members inside an answer by their places; names of topics and subscriptions are `*`."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from members_in(inner, f"{place}.{'*' if place.endswith(NAMED) else name}")
    elif isinstance(value, list):
        for inner in value:
            yield from members_in(inner, f"{place}[]")
    elif value is not None:
        yield place


def members_of(broker: Broker) -> list[str]:
    found: set[str] = set()
    for name, path in prepared(broker).items():
        status, answer = broker.rest("GET", path)
        assert status == 200, (path, answer)
        found |= set(members_in(answer, f"{name} "))
    return sorted(found)


def test_members_are_those_of_apache_pulsar(broker: Broker) -> None:
    # covers ST-1
    recorded: dict[str, list[str]] = json.loads(RECORD.read_text())
    found = set(members_of(broker)) | LEFT_OUT
    versions = recorded if broker.kind == "ours" else [chosen_version()]
    lacking = {version: sorted(set(recorded[version]) - found) for version in versions}
    assert not any(lacking.values()), lacking


@pytest.mark.ours_only("ST-1: more than Apache Pulsar has is documented")
def test_the_record_is_of_both_versions(broker: Broker) -> None:
    assert json.loads(RECORD.read_text()).keys() == {"4.0.8", "4.2.4"}


if __name__ == "__main__":
    version, service_url, admin_url = sys.argv[1:]
    known = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    known[version] = members_of(Broker("apache-pulsar", service_url, admin_url))
    RECORD.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
