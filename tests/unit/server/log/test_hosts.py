"""Lines that a host may cause: at the limit, past it, and after the minute."""

from __future__ import annotations

import logging

import pytest

from spark_pulsar.server.log.hosts import MOST_HOSTS, WINDOW_S, LinesOfHosts, of_host


def record(peer: str | None, logger: str = "spark_pulsar.audit") -> logging.LogRecord:
    made = logging.makeLogRecord({"name": logger})
    if peer is not None:
        made.__dict__.update(of_host(peer))
    return made


def test_a_host_has_its_lines_and_the_rest_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    # covers SEC-87
    now_s = 0.0
    limit = LinesOfHosts(30, lambda: now_s)
    assert [limit.filter(record(f"/10.0.0.1:{port}")) for port in range(1, 38)] == [True] * 30 + [False] * 7
    assert limit.filter(record("/10.0.0.2:1"))
    assert limit.filter(record("/10.0.0.1:1", "spark_pulsar.server")), "each log by itself"
    assert all(limit.filter(record(None)) for _ in range(100))
    now_s = WINDOW_S - 1
    limit.report()
    assert caplog.messages == []
    now_s = WINDOW_S
    limit.report()
    assert caplog.messages == ["7 more lines about /10.0.0.1 within a minute were left out"]
    assert limit.filter(record("/10.0.0.1:1"))


def test_ipv6_counts_by_network_and_mapped_addresses_as_what_they_are() -> None:
    assert of_host(("2001:db8::1", 1, 0, 0)) == of_host(("2001:db8::ffff", 2, 0, 0)) == {"host": "/2001:db8::/64"}
    assert of_host(("2001:db8:0:1::1", 1, 0, 0)) != of_host(("2001:db8::1", 1, 0, 0))
    assert of_host(("::ffff:10.0.0.1", 1, 0, 0)) == of_host(("10.0.0.1", 7)) == {"host": "/10.0.0.1"}
    assert of_host(None) == {"host": "/unknown"}


def test_hosts_past_the_limit_are_counted_together(caplog: pytest.LogCaptureFixture) -> None:
    limit = LinesOfHosts(1, lambda: 0.0)
    for number in range(MOST_HOSTS):
        assert limit.filter(record(f"/host{number}:1"))
    assert limit.filter(record("/one more:1"))
    assert not limit.filter(record("/another one:1"))
    limit.report(is_last=True)
    assert caplog.messages == ["1 more lines about other hosts within a minute were left out"]


def test_no_limit() -> None:
    assert all(LinesOfHosts(0).filter(record("/10.0.0.1:1")) for _ in range(1000))
