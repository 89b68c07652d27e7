"""The Pulsar of a test session: a broker process of its own (SEC-84: `security`), or one that runs already."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from spark_pulsar.broker.configuration.keys import setting_text
from spark_pulsar.client.secret import Secret
from spark_pulsar.testing.clients import close_client, open_admin, open_client
from spark_pulsar.testing.process import LOG_TAIL_LINES, BrokerDidNotStart, BrokerProcess
from spark_pulsar.testing.security import ADMIN_ROLE, RoleAccess
from spark_pulsar.testing.seeding import Seeded

if TYPE_CHECKING:
    import pulsar

    from spark_pulsar.testing.admin import BrokerAdmin

_TITLE = "Captured log of the Pulsar broker"
_FIXTURES: Final = frozenset(("pulsar_broker", "pulsar_broker_factory"))


class RunningPulsar(Seeded):
    """A Pulsar that another program runs: a container, a cluster. It has the clients of a `BrokerProcess`; its life is
    not in the hands of the tests."""

    is_running = True

    def __init__(self, access: RoleAccess) -> None:
        """`access`: its token decides the permissions of the tests."""
        self._access = access
        self.service_url = access.service_url
        self.admin_url = access.admin_url

    @property
    def client_options(self) -> dict[str, Any]:
        """Arguments of `pulsar.Client`."""
        return self._access.client_options

    @property
    def spark_options(self) -> dict[str, str]:
        """Options of `format("pulsar")`."""
        return self._access.spark_options

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
    """Reads the lines of `pulsar_broker_conf`; fails the test for one that is none."""
    conf: dict[str, object] = {}
    for line in lines:
        key, separator, value = line.partition("=")
        if not separator:
            pytest.fail(f"pulsar_broker_conf: want lines key=value, got {line!r}", pytrace=False)
        conf[key.strip()] = value.strip()
    return conf


_ADDRESSES: Final = ("service_url", "admin_url", "token_file", "tls_trust_certs")
_SHARED: Final = "spark_pulsar_shared"
_CONF: Final = "pulsar_broker_conf"
_Shared = dict[str, str]
_BROKER: Final = pytest.StashKey[_Shared]()


@contextmanager
def pulsar_under_test(
    config: pytest.Config, conf: dict[str, object], directory: Callable[[], Path]
) -> Iterator[PulsarUnderTest]:
    """Starts a broker for the session, or takes the one that the options name, or that the workers of pytest-xdist
    share."""
    given = named_pulsar(config)
    shared: _Shared | None = getattr(config, "workerinput", {}).get(_SHARED)
    if any(given.values()):
        check_access(given)
        yield RunningPulsar(_access(given, directory()))
    elif shared is not None:
        if conf != conf_of_lines(config.getini(_CONF)):
            pytest.fail(
                "the workers share one broker (pulsar_broker_shared), which a fixture pulsar_broker_conf cannot "
                "configure: write its keys into pytest's file, or take pulsar_broker_factory",
                pytrace=False,
            )
        yield RunningPulsar(_access(shared, directory()))
    else:
        with _started(config, conf, _flag(config, "token"), _flag(config, "tls")) as broker:
            yield broker


def shared_broker(config: pytest.Config) -> dict[str, _Shared]:
    """Starts the broker that the workers of pytest-xdist share, in the process that has started them, and returns what
    a worker is handed; nothing where each has its own, or the options name one. It ends with the session."""
    wanted = config.getoption("pulsar_broker_shared") or config.getini("pulsar_broker_shared")
    if not wanted or any(named_pulsar(config).values()):
        return {}
    if _BROKER not in config.stash:
        stack = ExitStack()
        try:
            conf = conf_of_lines(config.getini(_CONF))
            broker = stack.enter_context(_started(config, conf, _flag(config, "token"), _flag(config, "tls")))
        except pytest.fail.Exception as error:
            raise pytest.UsageError(str(error)) from None
        config.add_cleanup(stack.close)
        access = broker.as_role(ADMIN_ROLE)
        texts = (broker.service_url, broker.admin_url, access.token_path or "", access.trust_certs_path or "")
        config.stash[_BROKER] = {name: str(text) for name, text in zip(_ADDRESSES, texts, strict=True)}
    return {_SHARED: config.stash[_BROKER]}


class Brokers:
    """Brokers of one session by their configuration: those with the same one are one."""

    def __init__(self, config: pytest.Config, stack: ExitStack) -> None:
        """`stack` ends them."""
        self._config = config
        self._stack = stack
        self._brokers: dict[str, BrokerProcess] = {}

    def get(self, conf: dict[str, object] | None = None, *, token: bool = False, tls: bool = False) -> BrokerProcess:
        """Returns the broker with these keys of broker.conf; starts it where none runs."""
        if any(named_pulsar(self._config).values()):
            pytest.skip("brokers of their own configuration are not for a Pulsar that runs already")
        texts = sorted((str(key), setting_text(value)) for key, value in (conf or {}).items())
        of = repr((texts, token, tls))
        broker = self._brokers.get(of)
        if broker is None:
            broker = self._stack.enter_context(_started(self._config, conf or {}, token, tls))
            self._brokers[of] = broker
        return broker if broker.is_running else broker.start()


@contextmanager
def _started(config: pytest.Config, conf: dict[str, object], token: bool, tls: bool) -> Iterator[BrokerProcess]:
    try:
        broker = BrokerProcess(conf=conf, token=token, tls=tls)
    except (ValueError, OSError, ImportError) as error:  # InvalidConfiguration, no place for its files, no extra
        raise pytest.fail.Exception(f"{_CONF}: {error}", pytrace=False) from None
    try:
        broker.start()
        with reporting(config, broker):
            yield broker
    except BrokerDidNotStart as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    finally:
        broker.close()


def named_pulsar(config: pytest.Config) -> dict[str, str]:
    """Returns the addresses and files of the options that name a Pulsar which runs already, empty where they do not."""
    return {name: _option(config, name) for name in _ADDRESSES}


def _flag(config: pytest.Config, name: str) -> bool:
    return bool(config.getini(f"pulsar_broker_{name}"))


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
        uses = not _FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))
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
