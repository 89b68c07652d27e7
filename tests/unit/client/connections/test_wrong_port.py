"""What a client says of an address: that it is another port than the broker's, and that it cannot be connected."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

import spark_pulsar
from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections import connection_log
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.connections.tls import TlsConfig
from spark_pulsar.client.errors import ConnectFailed, OperationTimeout, TlsError, WrongPort
from spark_pulsar.model.errors import PulsarError, TopicNotFound
from spark_pulsar.testing.process import broker_process
from tests.eventually import eventually

TOPIC = "persistent://public/default/t"


@pytest.fixture(scope="module")
def plain() -> Iterator[spark_pulsar.BrokerProcess]:
    with spark_pulsar.broker_process() as broker:
        yield broker


@pytest.fixture(scope="module")
def secured() -> Iterator[spark_pulsar.BrokerProcess]:
    with spark_pulsar.broker_process(tls=True) as broker:
        yield broker


def told(url: str) -> PulsarError:
    """The error of the first request, which must not take the time of an operation."""
    config = ClientConfig(url, operation_timeout_ms=60_000, tls=TlsConfig(allow_insecure_connection=True))
    with closing(PulsarClient(config)) as client, pytest.raises(PulsarError) as caught:
        client.partition_count(TOPIC)
    return caught.value


def address(url: str) -> str:
    return url.partition("://")[2]


@pytest.mark.timeout(20)
def test_the_admin_port_is_told(plain: spark_pulsar.BrokerProcess) -> None:
    # covers READ-34
    where = address(plain.admin_url)
    for scheme, port in (("pulsar", 6650), ("pulsar+ssl", 6651)):
        assert str(told(f"{scheme}://{where}")).endswith(f"the service URL's port is usually {port}")


@pytest.mark.timeout(20)
def test_the_admin_port_of_tls_is_told(secured: spark_pulsar.BrokerProcess) -> None:
    where = address(secured.admin_url_tls)
    for scheme in ("pulsar", "pulsar+ssl"):
        error = told(f"{scheme}://{where}")
        assert isinstance(error, WrongPort)
        assert str(error).startswith(f"{where} answers HTTPS: this is the port of the admin API")


@pytest.mark.timeout(20)
def test_tls_where_there_is_none_and_the_reverse(
    plain: spark_pulsar.BrokerProcess, secured: spark_pulsar.BrokerProcess
) -> None:
    # covers READ-34
    error = told(plain.service_url.replace("pulsar://", "pulsar+ssl://"))
    assert isinstance(error, WrongPort)
    assert "answers without TLS: its service URL begins with pulsar://" in str(error)
    error = told(secured.service_url.replace("pulsar+ssl://", "pulsar://"))
    assert isinstance(error, WrongPort)
    assert "answers with TLS: its service URL begins with pulsar+ssl://" in str(error)


@pytest.mark.timeout(20)
def test_a_port_that_only_closes_is_no_wrong_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_close_all, args=(server,), daemon=True).start()
        where = f"127.0.0.1:{server.getsockname()[1]}"
        config = ClientConfig(f"pulsar://{where}", operation_timeout_ms=500)
        with closing(PulsarClient(config)) as client, pytest.raises(PulsarError) as caught:
            client.partition_count(TOPIC)
        assert not isinstance(caught.value, WrongPort)
        assert isinstance(caught.value, OperationTimeout)
        config = ClientConfig(f"pulsar+ssl://{where}", operation_timeout_ms=500)
        with closing(PulsarClient(config)) as client, pytest.raises(PulsarError) as caught:
            client.partition_count(TOPIC)
        assert not isinstance(caught.value, WrongPort | TlsError)


def _close_all(server: socket.socket) -> None:
    try:
        while True:
            server.accept()[0].close()
    except OSError:  # the test is over
        return


# ---- warnings, once in a while


def test_a_broker_that_goes_is_told_while_requests_are_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    # covers READ-35
    with broker_process() as process, closing(PulsarClient(ClientConfig(process.service_url))) as client:
        assert client.topics_of("public/default") == []
        where = process.service_url.partition("://")[2]
        process.kill()
        asked = threading.Thread(target=client.topics_of, args=("public/default",))
        asked.start()
        refused = f"cannot connect to {where}: "  # the client may notice first that the connection is gone
        eventually(lambda: any(text.startswith(refused) for text in caplog.messages))
        process.start()
        asked.join(20)
        assert not asked.is_alive()
        assert [text for text in caplog.messages if where not in text] == []
        assert all("trying again for " in text for text in caplog.messages if text.startswith(refused))


def test_one_text_is_told_once_in_a_while(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers READ-35
    now_ms = 0
    monkeypatch.setattr(connection_log, "monotonic_ms", lambda: now_ms)
    monkeypatch.setattr(connection_log, "_logged_ms", {})
    caplog.set_level(logging.WARNING)
    for now_ms in (0, 50, connection_log.AGAIN_AFTER_MS - 1, connection_log.AGAIN_AFTER_MS):
        connection_log.warn_of_retry(ConnectFailed("cannot connect to a:1: refused"), 30_000 - now_ms)
        connection_log.warn_of_retry(TopicNotFound("t"), 30_000)
    assert caplog.messages == [
        "cannot connect to a:1: refused; trying again for 30 s",
        "cannot connect to a:1: refused; trying again for 20 s",
    ]
    for number in range(1000):
        connection_log.warn_of_lost(PulsarError(f"connection {number} is lost"))
    assert len(connection_log._logged_ms) <= 100
