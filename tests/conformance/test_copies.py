"""A persistence policy that wants more bookies than there are."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import send_all
from tests.conformance.space import Space

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
