"""Ports of a broker: closed to other machines unless they are opened, and a loud line where they are."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from spark_pulsar.server.configuration.reading import load_config
from spark_pulsar.server.connections.listening import Listening

FREE: dict[str, object] = {"brokerServicePort": 0, "webServicePort": 0}


@contextmanager
def listening_by(conf: dict[str, object]) -> Iterator[Listening]:
    """The ports of a configuration."""
    made = Listening(load_config(None, conf))
    yield made
    made.close()


def addresses(listening: Listening) -> set[str]:
    return {each.getsockname()[0] for each in (*listening.binary, *listening.http)}


def test_only_this_machine_reaches_a_broker_that_is_not_told_otherwise(caplog: pytest.LogCaptureFixture) -> None:
    # covers SEC-40, SEC-48
    with listening_by(FREE) as listening:
        assert {"127.0.0.1"} <= addresses(listening) <= {"127.0.0.1", "::1"}
        if socket.has_ipv6:
            assert len(listening.binary) == len(listening.http)
        listening.warn()
        assert not caplog.records
        ports = listening.ports
        assert listening.ready_line() == f"ready pulsar://127.0.0.1:{ports.binary} http://127.0.0.1:{ports.http}"


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_a_broker_that_others_reach_says_what_they_can_do(address: str, caplog: pytest.LogCaptureFixture) -> None:
    # covers SEC-40
    conf = {**FREE, "bindAddress": address}
    with listening_by(conf | {"authenticationEnabled": True, "authenticationProviders": "token"}) as secured:
        secured.warn()
        assert not caplog.records
    with listening_by(conf) as listening:
        listening.warn()
        (line,) = caplog.messages
        assert f"LISTENING ON {address} WITHOUT AUTHENTICATION" in line
        ports = (str(listening.ports.binary), str(listening.ports.http))
        assert all(part in line for part in (*ports, "delete every topic", "bindAddress=127.0.0.1"))


def test_ports_over_tls_stand_behind_the_others() -> None:
    # covers SEC-42
    over_tls: dict[str, object] = {"brokerServicePortTls": 0, "webServicePortTls": 0}
    for conf, schemes in ((FREE, ["pulsar", "http"]), ({"brokerServicePort": "", "webServicePort": ""}, [])):
        with listening_by({**conf, **over_tls}) as listening:
            shown = [word.partition("://")[0] for word in listening.ready_line().split()]
            assert shown == ["ready", *schemes, "pulsar+ssl", "https"]


@pytest.mark.parametrize("name", ["brokerServicePort", "webServicePort"])
def test_a_protocol_without_any_port_is_an_error(name: str) -> None:
    # covers SEC-42
    with pytest.raises(OSError, match=f"neither {name} nor {name}Tls is set"):
        Listening(load_config(None, {**FREE, name: ""}))


def test_ports_of_a_broker_that_cannot_open_them_all_are_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as free:
        ports = {"brokerServicePort": free.getsockname()[1], "webServicePort": taken.getsockname()[1]}
        free.close()
        with pytest.raises(OSError, match=r"cannot listen at 127\.0\.0\.1"):
            Listening(load_config(None, ports))
        socket.create_server(("127.0.0.1", ports["brokerServicePort"])).close()
