"""What our broker does not offer yet is said, not passed over: an answer, on a connection that stays open."""

from __future__ import annotations

import pulsar
import pytest

from tests.brokers import Broker
from tests.conformance.exchange import receive_texts, send_all

NOT_YET = "ADM-8: what is not built yet answers its request id with a clear error"


@pytest.mark.ours_only(NOT_YET)
@pytest.mark.parametrize(
    "path",
    [
        "/admin/v2/namespaces/public/default/scanOffloadedLedgers",
    ],
)
def test_a_rest_call_that_is_not_offered_says_so(broker: Broker, path: str) -> None:
    status, answer = broker.rest("GET", path)
    assert status in (404, 405, 501)
    assert answer["reason"]


def test_an_unencoded_client_with_a_schema_still_works(broker: Broker) -> None:
    # covers SC-7
    topic = broker.topic()
    client = broker.client()
    consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    send_all(client.create_producer(topic), ["bytes"])
    assert receive_texts(consumer, 1) == ["bytes"]
