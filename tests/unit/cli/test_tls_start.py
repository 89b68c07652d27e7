"""A broker whose TLS cannot be served does not start and says why; a handshake that fails is one line of its log."""

import socket
from pathlib import Path

import pytest

from spark_pulsar import broker_process
from spark_pulsar.testing.certificates import Authority
from spark_pulsar.testing.process import BrokerDidNotStart
from tests.eventually import eventually


def test_a_broker_with_a_key_of_another_certificate_says_so_and_ends(tmp_path: Path) -> None:
    # covers SEC-42
    authority = Authority(tmp_path)
    certificate, key = authority.issue("one", ("localhost",))[0], authority.issue("other", ("localhost",))[1]
    conf = {"brokerServicePortTls": 0, "tlsCertificateFilePath": certificate, "tlsKeyFilePath": key}
    with pytest.raises(BrokerDidNotStart) as refused, broker_process(conf=conf):
        pass
    text = str(refused.value)
    assert f"cannot start: tlsKeyFilePath={key}: the key does not fit the certificate" in text
    assert "Traceback" not in text


def test_a_client_without_tls_on_the_port_with_it_is_one_line_of_the_log() -> None:
    # covers SEC-45
    with broker_process(tls=True) as broker:
        port = int(broker.service_url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), 30) as sock:
            sock.sendall(b"\x00\x00\x00\x0b\x00\x00\x00\x07\x08\x02\x12\x03\x0a\x01x")
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(100):
                pass
        line = eventually(lambda: [each for each in broker.log.splitlines() if "TLS handshake of /" in each])
        assert len(line) == 1
        assert "Traceback" not in broker.log
