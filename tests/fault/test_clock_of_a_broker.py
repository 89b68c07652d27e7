"""A broker whose machine's clock is corrected while it runs, and between two of its lives."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import jwt
import pulsar
import pytest

from spark_pulsar.testing.process import BrokerProcess
from tests.brokers import Broker
from tests.eventually import eventually
from tests.fault.crash_load import QUIET_CLIENT

TOPIC = "persistent://public/default/t"
KEY = b"the secret key of the tokens of a broker whose clock is corrected"
HOUR_S = 3_600
DAY_S = 24 * HOUR_S
CONF = {
    "transactionCoordinatorEnabled": "true",
    "authenticationEnabled": "true",
    "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
    "tokenSecretKey": "data:;base64," + base64.b64encode(KEY).decode(),
}


class ClockedBroker(BrokerProcess):
    """See `clocked_broker`."""

    _module = "tests.fault.clocked_broker"


class Clock:
    """The file that corrects the broker's clock."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def correct(self, ahead_s: int) -> None:
        """Sets the clock so far ahead of ours, at once."""
        new = self._path.with_suffix(".new")
        new.write_text(str(ahead_s))
        os.replace(new, self._path)


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setenv("CLOCK", str(tmp_path / "clock"))
    return Clock(tmp_path / "clock")


@pytest.fixture
def process(tmp_path: Path, clock: Clock) -> Iterator[BrokerProcess]:
    with ClockedBroker(tmp_path / "data", CONF) as started:
        yield started


def token(expires_in_s: int) -> str:
    return jwt.encode({"sub": "u", "exp": time.time_ns() // 1_000_000_000 + expires_in_s}, KEY, "HS256")


@contextmanager
def connected(process: BrokerProcess, expires_in_s: int = 10 * DAY_S) -> Iterator[pulsar.Client]:
    client = pulsar.Client(
        process.service_url,
        authentication=pulsar.AuthenticationToken(token(expires_in_s)),
        operation_timeout_seconds=10,
        logger=QUIET_CLIENT,
    )
    with closing(client):
        yield client


def is_let_in(process: BrokerProcess, expires_in_s: int) -> bool:
    broker = Broker("ours", process.service_url, process.admin_url)
    with closing(broker.unconnected()) as raw:
        fields = {"auth_method_name": "token", "auth_data": token(expires_in_s).encode()}
        raw.send("CONNECT", client_version="test", protocol_version=21, **fields)
        answer = raw.next_frame(10)
        return answer is not None and answer.type == "CONNECTED"


def test_tokens_and_delayed_messages_follow_a_correction(process: BrokerProcess, clock: Clock) -> None:
    # covers CLK-1, CLK-2
    with connected(process) as client:
        consumer = client.subscribe(TOPIC, "s", consumer_type=pulsar.ConsumerType.Shared)
        client.create_producer(TOPIC, batching_enabled=False).send(b"later", deliver_after=timedelta(minutes=50))
        assert is_let_in(process, 50 * 60)
        clock.correct(HOUR_S)
        assert consumer.receive(20_000).data() == b"later", "no client has to come for it"
        assert not is_let_in(process, 50 * 60), "expired by the corrected clock"
        clock.correct(-HOUR_S)
        eventually(lambda: is_let_in(process, -30 * 60))


def test_a_transaction_of_the_future_releases_its_topic(tmp_path: Path, clock: Clock) -> None:
    # covers CLK-3, TX-7
    clock.correct(365 * DAY_S)
    with ClockedBroker(tmp_path / "data", CONF) as process:
        with connected(process, 400 * DAY_S) as client:
            consumer = client.subscribe(TOPIC, "s")
            consumer.close()
            broker = Broker("ours", process.service_url, process.admin_url)
            raw = broker.unconnected()
            raw.connect(auth_method_name="token", auth_data=token(400 * DAY_S).encode())
            opened = raw.request("NEW_TXN", tc_id=0, txn_ttl_millis=5_000)
            txn = {"txnid_most_bits": 0, "txnid_least_bits": opened.fields.get("txnid_least_bits", 0)}
            raw.request("PRODUCER", topic=TOPIC, producer_id=1)
            raw.request("ADD_PARTITION_TO_TXN", partitions=[TOPIC], **txn)
            raw.close()
        process.kill()
        clock.correct(0)
        process.restart()
        with connected(process) as client:
            client.create_producer(TOPIC).send(b"plain")
            assert client.subscribe(TOPIC, "s").receive(20_000).data() == b"plain"
