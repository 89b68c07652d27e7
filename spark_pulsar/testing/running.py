"""The Pulsar of a test session: a broker process of its own (SEC-84: `security`), or one that runs already."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_pulsar.client.secret import Secret
from spark_pulsar.testing.clients import close_client, open_admin, open_client
from spark_pulsar.testing.process import LOG_TAIL_LINES, BrokerDidNotStart, BrokerProcess
from spark_pulsar.testing.security import RoleAccess

if TYPE_CHECKING:
    import pulsar

    from spark_pulsar.testing.admin import BrokerAdmin

_TITLE = "Captured log of the Pulsar broker"


class RunningPulsar:
    """A Pulsar that another program runs: a container, a cluster. It has the clients of a `BrokerProcess`; its life is
    not in the hands of the tests."""

    is_running = True

    def __init__(self, access: RoleAccess) -> None:
        """`access`: its token decides the permissions of the tests."""
        self._access = access
        self.service_url = access.service_url
        self.admin_url = access.admin_url
        self.client_options = access.client_options
        self.spark_options = access.spark_options

    def __repr__(self) -> str:
        return f"<RunningPulsar {self.service_url} {self.admin_url}>"

    def client(self, **settings: Any) -> pulsar.Client:
        """Makes an official client; `settings` are those of `pulsar.Client`."""
        return open_client(self._access, settings)

    def admin(self) -> BrokerAdmin:
        """Makes a client of the admin API."""
        return open_admin(self._access)


PulsarUnderTest = BrokerProcess | RunningPulsar


def conf_of_lines(lines: Sequence[str]) -> dict[str, object]:
    """Reads the lines of `pulsar_broker_conf`."""
    conf: dict[str, object] = {}
    for line in lines:
        key, separator, value = line.partition("=")
        if not separator:
            raise pytest.UsageError(f"pulsar_broker_conf: want lines key=value, got {line!r}")
        conf[key.strip()] = value.strip()
    return conf


@contextmanager
def pulsar_under_test(
    config: pytest.Config, conf: dict[str, object], directory: Callable[[], Path]
) -> Iterator[PulsarUnderTest]:
    """Starts a broker for the session, or takes the one that the options name."""
    given = {name: _option(config, name) for name in ("service_url", "admin_url", "token_file", "tls_trust_certs")}
    if any(given.values()):
        check_access(given)
        yield RunningPulsar(_access(given, directory()))
        return
    token, tls = bool(config.getini("pulsar_broker_token")), bool(config.getini("pulsar_broker_tls"))
    try:
        broker = BrokerProcess(conf=conf, token=token, tls=tls)
    except ValueError as error:  # InvalidConfiguration
        raise pytest.fail.Exception(f"pulsar_broker_conf: {error}", pytrace=False) from None
    try:
        broker.start()
        with reporting(config, broker):
            yield broker
    except BrokerDidNotStart as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    finally:
        broker.close()


def _option(config: pytest.Config, name: str) -> str:
    return str(config.getoption(f"pulsar_{name}") or config.getini(f"pulsar_{name}"))


def check_access(given: dict[str, str]) -> None:
    """Checks the addresses of a Pulsar that runs already; fails the test that requested it."""
    service, admin = given["service_url"], given["admin_url"]
    if not (service and admin):
        pytest.fail("a Pulsar that runs already has two: --pulsar-service-url and --pulsar-admin-url", pytrace=False)
    for name, url, schemes in (
        ("service", service, ("pulsar://", "pulsar+ssl://")),
        ("admin", admin, ("http://", "https://")),
    ):
        if not url.startswith(schemes):
            pytest.fail(f"--pulsar-{name}-url {url}: want {' or '.join(schemes)}HOST:PORT", pytrace=False)


def _access(given: dict[str, str], directory: Path) -> RoleAccess:
    path, trusted = given["token_file"], given["tls_trust_certs"]
    try:
        token = Path(path).read_text().strip() if path else ""
    except OSError as error:
        raise pytest.fail.Exception(f"--pulsar-token-file {path}: {error.strerror}", pytrace=False) from None
    if trusted and not Path(trusted).is_file():
        pytest.fail(f"--pulsar-tls-trust-certs {trusted}: there is no such file", pytrace=False)
    return RoleAccess(
        given["service_url"].rstrip("/"),
        given["admin_url"].rstrip("/"),
        directory / "client.conf",
        Path(trusted).absolute() if trusted else None,
        Path(path).absolute() if path else None,
        Secret(token),
    )


@contextmanager
def client_of_test(broker: PulsarUnderTest) -> Iterator[pulsar.Client]:
    """Opens an official client, and closes it."""
    try:
        client = broker.client()
    except ModuleNotFoundError as error:
        raise pytest.fail.Exception(f"the fixture pulsar_client: {error}", pytrace=False) from None
    yield client
    close_client(client)


class BrokerLog:
    """Plugin of one session: adds the broker's log since a test began to the report of a failed test."""

    def __init__(self, broker: BrokerProcess) -> None:
        """`broker`: one that was not closed."""
        self._path = broker.log_path
        self._seen = self._size()

    def _size(self) -> int:
        return self._path.stat().st_size if self._path.exists() else 0

    def _news(self) -> list[str]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._seen)
            return file.read().decode(errors="replace").splitlines()[-LOG_TAIL_LINES:]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        """Adds a section to the report of a failure."""
        outcome: Any = yield
        report: pytest.TestReport = outcome.get_result()
        uses = "pulsar_broker" in getattr(item, "fixturenames", ())
        if report.failed and uses:
            lines = self._news()
            if lines:
                report.sections.append((_TITLE, "\n".join(lines)))
        if report.when == "teardown":
            self._seen = self._size()


@contextmanager
def reporting(config: pytest.Config, broker: BrokerProcess) -> Iterator[None]:
    """Has the plugin as long as the broker is there."""
    log = BrokerLog(broker)
    config.pluginmanager.register(log)
    try:
        yield
    finally:
        config.pluginmanager.unregister(log)
