"""Options and fixtures of the whole suite: which tests, which broker, and one that a test may kill.

`pytest --rule=TTL-4` runs the tests that cover a rule of docs/rules.md, and collects no other file.
`pytest --broker=ours` (default) starts our broker once for the session; `--broker=apache-pulsar` a real Apache Pulsar.
`--pulsar-version=4.2.4` names the version of Apache Pulsar, for `--broker=apache-pulsar` and for its own clients.
With `APACHE_PULSAR_URLS="pulsar://HOST:PORT http://HOST:PORT"` the session takes one that is running already, in the
version that it reports.
"""

from __future__ import annotations

import gc
import os
import urllib.request
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pulsar
import pytest
from hypothesis import HealthCheck, settings

from tests import citations, jvms
from tests.apache_pulsar.start import CHOSEN_VERSION, VERSIONS, apache_pulsar, chosen_version
from tests.brokers import RUNNING_APACHE_PULSAR, Broker
from tests.raw import RawConnection
from tests.scheduling import FilesByBroker, FilesInLanes

# The same examples in every run: what fails once fails again. No time of a busy machine is a failure.
settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")

# Commands of tests take no profile of the developer's.
os.environ["SPARK_PULSAR_PROFILE"] = ""

# As tests/apache_pulsar/standalone.conf (ACK-9, TX-1, FO-6: the shorter delay spares time).
CONF_OF_OURS: dict[str, object] = {
    "acknowledgmentAtBatchIndexLevelEnabled": True,
    "transactionCoordinatorEnabled": True,
    "activeConsumerFailoverDelayTimeMillis": 200,
}
# Everything that is rare with a few messages happens all the time: segments fill and settle, ledgers roll and are
# trimmed, every read goes to a file.
SMALL_FILES: dict[str, object] = {
    "journalMaxSizeMB": 1,
    "managedLedgerMaxEntriesPerLedger": 50,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    "managedLedgerCacheSizeMB": 0,
    # Readers' tests have no subscription, and are over by then.
    "defaultRetentionTimeInMinutes": 1,
    "defaultRetentionSizeInMB": -1,
}
# Pulsar's keys, for both brokers.
LIMITS: dict[str, object] = {
    "keepAliveIntervalSeconds": 2,
    "maxUnackedMessagesPerConsumer": 10,
    "maxUnackedMessagesPerSubscription": 16,
    "maxProducersPerTopic": 2,
    "maxConsumersPerTopic": 4,
    "maxConsumersPerSubscription": 2,
    "maxSubscriptionsPerTopic": 3,
    "maxNumPartitionsPerPartitionedTopic": 4,
    "subscriptionKeySharedEnable": False,
    # Topics that nobody uses go where a policy says so; Apache Pulsar only looks for them when this is on.
    "brokerDeleteInactiveTopicsEnabled": True,
    "brokerDeleteInactiveTopicsFrequencySeconds": 1,
    "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds": 600,
}
# Pulsar's keys, for both brokers: ledgers are small, and everything that runs now and then runs as often as it may.
ROLLING: dict[str, object] = {
    "managedLedgerMaxEntriesPerLedger": 10,
    "managedLedgerMaxSizePerLedgerMbytes": 1,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    "brokerDeduplicationEntriesInterval": 10,
    "retentionCheckIntervalInSeconds": 1,
    "messageExpiryCheckIntervalInMinutes": 1,
    "backlogQuotaCheckIntervalInSeconds": 1,
    "preciseTimeBasedBacklogQuotaCheck": True,
    "managedLedgerDefaultMarkDeleteRateLimit": 1000,
    "managedLedgerCursorPositionFlushSeconds": 1,
    "brokerServiceCompactionMonitorIntervalInSeconds": 1,
    "delayedDeliveryFixedDelayDetectionLookahead": 100,
}
# Pulsar's keys, for both brokers: what holds where neither a namespace nor a topic says anything.
CONFIGURED: dict[str, object] = {
    "managedLedgerMaxEntriesPerLedger": 10,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    "managedLedgerInactiveLedgerRolloverTimeSeconds": 2,
    "retentionCheckIntervalInSeconds": 1,
    "defaultRetentionTimeInMinutes": 0,
    "defaultRetentionSizeInMB": 100,
    "ttlDurationDefaultInSeconds": 600,
    "messageExpiryCheckIntervalInMinutes": 1,
    "backlogQuotaDefaultLimitBytes": 100_000,
    "backlogQuotaDefaultRetentionPolicy": "producer_exception",
    "backlogQuotaCheckIntervalInSeconds": 1,
    "brokerDeduplicationEnabled": True,
    "brokerDeduplicationProducerInactivityTimeoutMinutes": 1,
    "statsUpdateFrequencyInSecs": 2,
    "subscriptionExpirationTimeMinutes": 1,
    "subscriptionExpiryCheckIntervalInMinutes": 1,
    "subscriptionKeySharedUseClassicPersistentImplementation": True,
    "brokerPublisherThrottlingMaxMessageRate": 100,
}
# Pulsar's keys, for both brokers: what rates of dispatch count, and whom they spare.
THROTTLING: dict[str, object] = {
    "dispatchThrottlingOnBatchMessageEnabled": True,
    "dispatchThrottlingOnNonBacklogConsumerEnabled": False,
    "managedLedgerCursorBackloggedThreshold": 10,
    "cacheEvictionByExpectedReadCount": False,  # else nobody has a backlog: see changes.ALL_SPARED
    "maxPublishRatePerTopicInMessages": 500,
}
# Pulsar's keys, for both brokers: switches the other way round, each for a file or two.
SWITCHED: dict[str, object] = {
    # With transactions Apache Pulsar remembers bit sets for redelivery all the same (ACK-9).
    "acknowledgmentAtBatchIndexLevelEnabled": False,
    "transactionCoordinatorEnabled": False,
    "subscriptionKeySharedUseConsistentHashing": False,
    "forceDeleteNamespaceAllowed": True,
    "forceDeleteTenantAllowed": True,
    "journalSyncData": False,
    "journalMaxSizeMB": 1,
    "statsUpdateInitialDelayInSecs": 1,
    "statsUpdateFrequencyInSecs": 1,
}
OWN = "own_broker"
CONF_OF: dict[str, dict[str, object]] = {
    OWN: {},
    "limited_broker": LIMITS,
    "rolling_broker": ROLLING,
    "configured_broker": CONFIGURED,
    "throttling_broker": THROTTLING,
    "switched_broker": SWITCHED,
}
"""Pulsar's keys of the brokers beside the one of the session, by the fixture that they are for."""
# What our broker logs when an invariant of its core is broken; it checks them after each turn under this variable.
CHECK_INVARIANTS = "SPARK_PULSAR_CHECK_INVARIANTS"
CORE_STOPPED = b"core stops"
FAILED = pytest.StashKey[bool]()


class Log:
    """What a broker of ours writes about itself; every look at it begins where the last one ended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen = 0

    def tells_of_a_failure(self) -> bool:
        """Whether an invariant of its core was broken since the last look."""
        if self.path.stat().st_size == self._seen:
            return False
        with self.path.open("rb") as file:
            file.seek(self._seen)
            news = file.read()
        whole = news[: news.rfind(b"\n") + 1]
        self._seen += len(whole)
        return CORE_STOPPED in whole


RUNNING: dict[object, Log] = {}
"""The brokers of ours that run, and their logs."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--broker", default="ours", choices=["ours", "apache-pulsar"], help="the broker under test")
    parser.addoption(
        "--pulsar-version",
        choices=VERSIONS,
        help=f"the Apache Pulsar that is started, and whose clients run; {VERSIONS[0]}, or what {CHOSEN_VERSION} names",
    )
    parser.addoption(
        "--small-files", action="store_true", help="our broker rolls, settles and reads files all the time"
    )
    parser.addoption("--rule", help="run the tests that cover this rule of docs/rules.md")


def pytest_report_header(config: pytest.Config) -> str:
    """Names the broker under test."""
    return "broker: " + ("ours" if config.getoption("--broker") == "ours" else f"Apache Pulsar {chosen_version()}")


def running_version() -> str | None:
    """Returns the version that the running Apache Pulsar of the environment reports; None without one."""
    running = os.environ.get(RUNNING_APACHE_PULSAR)
    if not running:
        return None
    with urllib.request.urlopen(f"{running.split()[1]}/admin/v2/brokers/version", timeout=60) as answer:
        return str(answer.read().decode())


def pytest_configure(config: pytest.Config) -> None:
    """On Apache Pulsar a test that fails is tried a second time; the summary names it (`-rR`), with its first failure.

    The judge has races of its own, a consumer that stands still now and then (SH-10), and pauses to collect garbage:
    one failure in thousands of tests says nothing about our reading of Pulsar. On our broker it is a bug: no second
    try, unless `--reruns` asks for one.
    """
    if rule := config.getoption("--rule"):
        citations.existing(rule)
    if version := config.getoption("--pulsar-version") or running_version():
        os.environ[CHOSEN_VERSION] = version
    for name, value in jvms.settings().items():
        os.environ.setdefault(name, value)
    os.environ.setdefault(CHECK_INVARIANTS, "1")
    if config.getoption("--broker") == "apache-pulsar" and getattr(config.option, "reruns", None) is None:
        config.option.reruns = 1
        config.option.rerun_show_tracebacks = True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keeps the collector of garbage away from thousands of tests and modules, all of which stay to the end."""
    gc.disable()
    outcome = yield
    gc.freeze()
    gc.enable()
    return outcome


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesInLanes | FilesByBroker | None:
    """Replaces `--dist loadfile`."""
    if config.getoption("dist") != "loadfile":
        return None
    return FilesInLanes(config, log) if config.getoption("--broker") == "ours" else FilesByBroker(config, log)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `--rule`, leaves out the files that do not name the rule: importing all takes a minute."""
    rule = config.getoption("--rule")
    if not rule or not collection_path.name.startswith("test_") or collection_path.suffix != ".py":
        return None
    return True if not citations.may_name(collection_path, rule) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps the tests of a rule; deselects on Apache Pulsar what holds on our broker only, by a rule that the marker
    names, and what Spark and the connector do whatever the broker."""
    if rule := config.getoption("--rule"):
        chosen = {item for item in items if citations.chosen(item, rule)}
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = [item for item in items if item in chosen]
        if not items:
            raise pytest.UsageError(f"--rule={rule}: no test in these folders says `# covers {rule}`")
    for item in items:
        marker = item.get_closest_marker("ours_only")
        if marker is not None and not (marker.args and isinstance(marker.args[0], str)):
            raise pytest.UsageError(f"{item.nodeid}: ours_only must name the rule row where we differ")
    if config.getoption("--small-files"):
        CONF_OF_OURS.update(SMALL_FILES)
    if getattr(config.option, "reruns", None):
        for item in items:
            # Else one clock runs for both tries, and never again after it has rung.
            item.add_marker(pytest.mark.timeout(func_only=True))
    if config.getoption("--broker") == "ours":
        return
    left_out = ["ours_only"]
    if "spark_alone" not in config.getoption("markexpr"):  # `-m spark_alone` runs them all the same
        left_out.append("spark_alone")
    ours = [item for item in items if any(map(item.get_closest_marker, left_out))]
    if ours:
        items[:] = [item for item in items if not any(map(item.get_closest_marker, left_out))]
        config.hook.pytest_deselected(items=ours)


@contextmanager
def started(
    kind: str, data_dir: Path, conf: Mapping[str, object] | None = None, headers: Mapping[str, str] | None = None
) -> Iterator[Broker]:
    """A broker of a kind with Pulsar's keys `conf` on top of the suite's own; for fixtures. `headers`: credentials of
    requests, for one that asks for them."""
    if kind == "ours":
        from spark_pulsar import broker_process

        with broker_process(data_dir=data_dir, conf=CONF_OF_OURS | dict(conf or {})) as ours:
            log = RUNNING[ours] = Log(ours.log_path)
            try:
                yield Broker("ours", ours.service_url, ours.admin_url, ours)
            finally:
                del RUNNING[ours]
            assert not log.tells_of_a_failure(), f"the core failed during the tests:\n{ours.log}"
    else:
        real = apache_pulsar(data_dir, {key: str(value) for key, value in (conf or {}).items()}, headers)
        try:
            yield Broker("apache-pulsar", real.service_url, real.admin_url, real)
        finally:
            real.stop()


@pytest.fixture(scope="session")
def broker_kind(request: pytest.FixtureRequest) -> str:
    """`ours` or `apache-pulsar`."""
    return str(request.config.getoption("--broker"))


@pytest.fixture(scope="session")
def broker(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker under test, one for the session: use topics of your own (`broker.topic()`), never restart it."""
    running = os.environ.get(RUNNING_APACHE_PULSAR)
    with ExitStack() as stack:
        if broker_kind == "apache-pulsar" and running:
            service_url, admin_url = running.split()
            shared = Broker("apache-pulsar", service_url, admin_url)
        else:
            shared = stack.enter_context(started(broker_kind, tmp_path_factory.mktemp("broker")))
            shared.process = None
        stack.callback(shared.close_since, 0)
        yield shared


@pytest.fixture
def topic(broker: Broker) -> str:
    """The name of a topic that nobody used before."""
    return broker.topic()


@pytest.fixture
def client(broker: Broker) -> pulsar.Client:
    """An official client of the broker under test."""
    return broker.client()


@pytest.fixture
def raw(broker: Broker) -> RawConnection:
    """A connection of single frames to the broker under test, after its handshake."""
    return broker.raw()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let fixtures know that their test has failed."""
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


class SpecialBrokers:
    """Brokers beside the one of the session, by the fixture that they are for: started when a test needs one, and used
    by one module after the other until they are dropped.

    An Apache Pulsar takes a gigabyte: two of them run, which is as many as a module uses.
    """

    def __init__(self, kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
        self._kind = kind
        self._directories = tmp_path_factory
        self._most = 2 if kind == "apache-pulsar" else len(CONF_OF)
        self._running: dict[str, tuple[Broker, ExitStack]] = {}

    def current(self, name: str = OWN) -> Broker:
        """The one that is there, else a new one."""
        if name not in self._running:
            while len(self._running) >= self._most:
                self.drop(next(iter(self._running)))
            fresh = ExitStack()
            started_now = started(self._kind, self._directories.mktemp(name.replace("_", "-")), CONF_OF[name])
            self._running[name] = fresh.enter_context(started_now), fresh
        self._running[name] = self._running.pop(name)  # the one used last is the last to go
        return self._running[name][0]

    def for_module(self, name: str) -> Iterator[Broker]:
        """Yields the current one; closes what a module has opened there when it is over."""
        broker = self.current(name)
        mark = broker.opened()
        yield broker
        broker.close_since(mark)

    def drop(self, name: str = OWN) -> None:
        """End it: the next test gets a new one."""
        broker, running = self._running.pop(name, (None, ExitStack()))
        with running:
            if broker is not None:
                broker.close_since(0)

    def close(self) -> None:
        """Ends all."""
        for name in list(self._running):
            self.drop(name)


@pytest.fixture(scope="session")
def special_brokers(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpecialBrokers]:
    """Where the brokers below come from."""
    brokers = SpecialBrokers(broker_kind, tmp_path_factory)
    yield brokers
    brokers.close()


@pytest.fixture
def own_broker(special_brokers: SpecialBrokers, request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker that the test may restart and kill; nobody else talks to it. Leave it running."""
    request.node.stash[FAILED] = False
    own = special_brokers.current()
    mark = own.opened()
    yield own
    try:
        own.close_since(mark)
    finally:
        # The tests of a session share one, but nobody takes over one that a failed test may have left dead, least of
        # all the second try of that test.
        if request.node.stash[FAILED]:
            special_brokers.drop()


@pytest.fixture(scope="module")
def limited_broker(special_brokers: SpecialBrokers) -> Iterator[Broker]:
    """A broker whose limits are low enough to be reached: see `LIMITS`."""
    yield from special_brokers.for_module("limited_broker")


@pytest.fixture(scope="module")
def rolling_broker(special_brokers: SpecialBrokers) -> Iterator[Broker]:
    """A broker whose ledgers are small and whose rules about them are checked often: see `ROLLING`."""
    yield from special_brokers.for_module("rolling_broker")


@pytest.fixture(scope="module")
def configured_broker(special_brokers: SpecialBrokers) -> Iterator[Broker]:
    """A broker whose configuration sets retention, expiry, quotas and de-duplication: see `CONFIGURED`."""
    yield from special_brokers.for_module("configured_broker")


@pytest.fixture(scope="module")
def throttling_broker(special_brokers: SpecialBrokers) -> Iterator[Broker]:
    """A broker whose rates spare who has no backlog, and count batches: see `THROTTLING`."""
    yield from special_brokers.for_module("throttling_broker")


@pytest.fixture(scope="module")
def switched_broker(special_brokers: SpecialBrokers) -> Iterator[Broker]:
    """A broker whose switches stand the other way round, with statistics of the last second: see `SWITCHED`."""
    yield from special_brokers.for_module("switched_broker")


@pytest.fixture(autouse=True)
def _close_what_the_test_opened(request: pytest.FixtureRequest) -> Iterator[None]:
    """And see to it that the core of every broker holds what it promises: who breaks that fails, by name."""
    names = [name for name in ("broker", *CONF_OF) if name in request.fixturenames]
    brokers: list[Broker] = [request.getfixturevalue(name) for name in names]
    marks = [each.opened() for each in brokers]
    yield
    for each, mark in zip(brokers, marks, strict=True):
        each.close_since(mark)
    for log in RUNNING.values():
        assert not log.tells_of_a_failure(), f"an invariant was broken (SUB-4, SH-6, ...):\n{log.path.read_text()}"
