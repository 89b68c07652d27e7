"""Apache Pulsar as a cluster on 127.0.0.1, from Maven Central: a ZooKeeper, a bookie, brokers on ports of their own.

As a program, to look at one by hand; it ends with SIGINT or SIGTERM:

    python -m tests.cluster.pulsar_cluster DIR
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.apache_pulsar import start
from tests.apache_pulsar.start import class_path, free_ports
from tests.brokers import Broker, topic_path
from tests.cluster.processes import CannotStart, ServerProcess
from tests.eventually import eventually

CLUSTER = "test"
BROKERS = 2
START_TIMEOUT_S = 150.0
SESSION_TIMEOUT_MS = 6_000
"""ZooKeeper gives up a broker that was killed after this time; then others may own its bundles."""
FAILOVER_TIMEOUT_S = 120.0
_ANSWER_TIMEOUT_S = 30.0
_OPENED_PACKAGES = (
    "java.base/java.nio",
    "java.base/java.util.zip",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform",
    "java.base/sun.net",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)


def _answers(port: int) -> bool:
    """Tells whether somebody listens on a port of 127.0.0.1."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def _http(method: str, url: str, body: Any = None) -> tuple[int, Any]:
    """Status and answer (parsed JSON, else text) of one call; redirects are followed with the method and body."""
    data = None if body is None else json.dumps(body).encode()
    for _ in range(5):
        request = urllib.request.Request(url, data=data, method=method)
        if data is not None:
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_TIMEOUT_S) as answer:
                status, text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                status, text = error.code, error.read().decode()
                location = error.headers.get("Location")
            if status == 307 and location:
                url = location
                continue
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text
    return 310, f"too many redirects, the last to {url}"


class BrokerNode:
    """One broker of the cluster: its two ports and its process.

    Attributes:
        service_url: `pulsar://127.0.0.1:PORT`.
        admin_url: `http://127.0.0.1:PORT`.
        process: The Java process.
    """

    def __init__(self, port: int, http_port: int, process: ServerProcess) -> None:
        self.service_url = f"pulsar://127.0.0.1:{port}"
        self.admin_url = f"http://127.0.0.1:{http_port}"
        self.broker_id = f"127.0.0.1:{http_port}"
        self.process = process


class PulsarCluster:
    """ZooKeeper, bookie and brokers. Brokers are killed and started again, bundles are moved between them.

    Attributes:
        directory: All data and logs: `zookeeper.log`, `bookie.log`, `broker-0.log`, …
        brokers: The brokers, in the order of their numbers.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()
        self._zookeeper_port, self._bookie_port, *ports = free_ports(2 + 2 * BROKERS)
        self._scratch = self.directory / "tmp"
        self._zookeeper = self._server("zookeeper", 192, "org.apache.zookeeper.server.quorum.QuorumPeerMain", "zoo.cfg")
        self._bookie = self._server("bookie", 256, "org.apache.bookkeeper.server.Main", "--conf", "bookie.conf")
        main = ("org.apache.pulsar.PulsarBrokerStarter", "--broker-conf")
        self.brokers = [
            BrokerNode(port, http_port, self._server(f"broker-{number}", 384, *main, f"broker-{number}.conf"))
            for number, (port, http_port) in enumerate(zip(ports[:BROKERS], ports[BROKERS:], strict=True))
        ]

    # ---- start and end

    def start(self) -> None:
        """Starts everything and returns when both brokers serve.

        Raises:
            CannotStart: Java or Maven is missing, or a server did not get ready (with the end of its log).
        """
        if shutil.which("java") is None:
            raise CannotStart("Apache Pulsar needs Java 17 or newer: apt-get install -y openjdk-17-jre-headless")
        self._scratch.mkdir(parents=True)
        self._write_configuration()
        self._zookeeper.start()
        self._zookeeper.wait_until(lambda: _answers(self._zookeeper_port), START_TIMEOUT_S)
        self._initialize_metadata()
        self._bookie.start()
        self._bookie.wait_until(lambda: _answers(self._bookie_port), START_TIMEOUT_S)
        for node in self.brokers:
            node.process.start()
        for number in range(len(self.brokers)):
            self._wait_for_broker(number)
        eventually(lambda: len(self.active_brokers()) == BROKERS, START_TIMEOUT_S)

    def stop(self) -> None:
        """Ends everything. Brokers and bookie have nothing to hand over, so they are killed."""
        for server in [*(node.process for node in self.brokers), self._bookie, self._zookeeper]:
            server.kill()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def kill(self, number: int) -> None:
        """Ends a broker at once (SIGKILL). Its topics have no owner until ZooKeeper has given it up."""
        self.brokers[number].process.kill()

    def wait_until_given_up(self, number: int) -> None:
        """Waits until the others own what a killed broker owned."""
        gone = self.brokers[number].broker_id
        eventually(lambda: gone not in self.active_brokers(), FAILOVER_TIMEOUT_S)

    def restart(self, number: int) -> None:
        """Starts a killed broker again, on its ports, once it has been given up; returns when it serves."""
        self.wait_until_given_up(number)
        self.brokers[number].process.start()
        self._wait_for_broker(number)
        eventually(lambda: len(self.active_brokers()) == BROKERS, START_TIMEOUT_S)

    # ---- the brokers as tests see them

    @property
    def service_url(self) -> str:
        """The service URL that names all brokers."""
        return "pulsar://" + ",".join(node.service_url.removeprefix("pulsar://") for node in self.brokers)

    def broker(self, number: int | None = None) -> Broker:
        """One broker as the suites' fixtures have it; without a number the cluster by all its addresses."""
        if number is None:
            return Broker("apache-pulsar", self.service_url, self.brokers[0].admin_url)
        return Broker("apache-pulsar", self.brokers[number].service_url, self.brokers[number].admin_url)

    def rest(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and answer of a REST call to the first broker that runs; redirects are followed."""
        running = next(node for node in self.brokers if node.process.running)
        return _http(method, running.admin_url + path, body)

    def active_brokers(self) -> set[str]:
        """The brokers that ZooKeeper knows, as `host:http port`."""
        status, answer = self.rest("GET", f"/admin/v2/brokers/{CLUSTER}")
        return set(answer) if status == 200 else set()

    # ---- bundles

    def owner(self, topic: str) -> int:
        """The number of the broker that owns a topic (of one partition); it is given one where it has none."""
        domain, _, rest = topic.partition("://")

        def asked() -> str | None:
            status, answer = self.rest("GET", f"/lookup/v2/topic/{domain}/{rest}")
            return answer["brokerUrl"] if status == 200 else None

        url = eventually(asked, FAILOVER_TIMEOUT_S)
        return [node.service_url for node in self.brokers].index(url)

    def bundle(self, topic: str) -> str:
        """The range of hashes that a topic belongs to, as the REST API names it."""
        domain, _, rest = topic.partition("://")
        status, answer = self.rest("GET", f"/lookup/v2/topic/{domain}/{rest}/bundle")
        assert status == 200, (status, answer)
        return str(answer)

    def unload(self, topic: str) -> None:
        """Unloads the bundle of a topic: its clients are told to look it up again."""
        self._unload(topic, "")

    def move(self, topic: str, number: int) -> None:
        """Unloads the bundle of a topic, so that the given broker owns it from now on."""
        destination = urllib.parse.quote(self.brokers[number].broker_id)

        def moved() -> bool:
            if self.owner(topic) != number:
                self._unload(topic, f"?destinationBroker={destination}")
            return self.owner(topic) == number

        eventually(moved, FAILOVER_TIMEOUT_S)

    def _unload(self, topic: str, query: str) -> None:
        namespace = "/".join(topic.partition("://")[2].split("/")[:2])
        status, answer = self.rest("PUT", f"/admin/v2/namespaces/{namespace}/{self.bundle(topic)}/unload{query}")
        assert status == 204, (status, answer)

    def namespace(self, name: str, bundles: int) -> str:
        """Makes a namespace of the tenant `public` with a number of bundles and keeps what is written there."""
        full = f"public/{name}"
        body = {"bundles": {"numBundles": bundles}, "replication_clusters": [CLUSTER]}
        status, answer = self.rest("PUT", f"/admin/v2/namespaces/{full}", body)
        assert status == 204, (status, answer)
        retention = {"retentionTimeInMinutes": 60, "retentionSizeInMB": 1_000}
        status, answer = self.rest("POST", f"/admin/v2/namespaces/{full}/retention", retention)
        assert status == 204, (status, answer)
        return full

    def create(self, topic: str, partitions: int = 0) -> list[str]:
        """Creates a topic; the full names of its partitions, or its own."""
        status, answer = self.rest("PUT", topic_path(topic) + "/partitions" * bool(partitions), partitions or None)
        assert status == 204, (status, answer)
        return [f"{topic}-partition-{index}" for index in range(partitions)] or [topic]

    def spread(self, topics: Sequence[str]) -> None:
        """Moves the bundles of topics, in turn, to the first broker and the others, so that each owns some of them."""
        for index, bundle in enumerate(sorted({self.bundle(topic) for topic in topics})):
            topic = next(topic for topic in topics if self.bundle(topic) == bundle)
            self.move(topic, index % len(self.brokers))

    # ---- set-up

    def _java(self, heap_mb: int) -> list[str]:
        options = [f"-Xmx{heap_mb}m", "-Xms64m", "-XX:MaxDirectMemorySize=256m", "-XX:+UseSerialGC"]
        # Short-lived and on few cores: what the second compiler gains it costs.
        options += ["-XX:TieredStopAtLevel=1", "-Dio.netty.tryReflectionSetAccessible=true"]
        options += [f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED_PACKAGES]
        log4j = Path(start.__file__).with_name("log4j2.xml")
        options += [f"-Dlog4j2.configurationFile={log4j}", f"-Djava.io.tmpdir={self._scratch}"]
        options += ["-Dzookeeper.admin.enableServer=false", "-Dzookeeper.4lw.commands.whitelist=*"]
        return ["java", *options, "-classpath", class_path()]

    def _server(self, name: str, heap_mb: int, *main: str) -> ServerProcess:
        return ServerProcess(name, [*self._java(heap_mb), *main], self.directory)

    def _write_configuration(self) -> None:
        zookeeper = f"127.0.0.1:{self._zookeeper_port}"
        self._write(
            "zoo.cfg",
            tickTime=1_000,
            dataDir=self.directory / "zookeeper",
            clientPort=self._zookeeper_port,
            clientPortAddress="127.0.0.1",
        )
        bookie = self.directory / "bookkeeper"
        self._write(
            "bookie.conf",
            bookiePort=self._bookie_port,
            listeningInterface="lo",
            advertisedAddress="127.0.0.1",
            allowLoopback="true",
            metadataServiceUri=f"zk+null://{zookeeper}/ledgers",
            zkTimeout=SESSION_TIMEOUT_MS,
            journalDirectories=bookie,
            ledgerDirectories=bookie,
            ledgerStorageClass="org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
            dbStorage_writeCacheMaxSizeMb=32,
            dbStorage_readAheadCacheMaxSizeMb=16,
            dbStorage_rocksDB_blockCacheSize=8 * 1024 * 1024,
            journalPreAllocSizeMB=4,
            nettyMaxFrameSizeBytes=5_253_120,
            httpServerEnabled="false",
            enableStatistics="false",
            diskUsageThreshold="0.99",
            diskUsageWarnThreshold="0.98",
        )
        for number, node in enumerate(self.brokers):
            self._write(
                f"broker-{number}.conf",
                clusterName=CLUSTER,
                metadataStoreUrl=f"zk:{zookeeper}",
                configurationMetadataStoreUrl=f"zk:{zookeeper}",
                metadataStoreSessionTimeoutMillis=SESSION_TIMEOUT_MS,
                bindAddress="127.0.0.1",
                advertisedAddress="127.0.0.1",
                brokerServicePort=node.service_url.rpartition(":")[2],
                webServicePort=node.admin_url.rpartition(":")[2],
                managedLedgerDefaultEnsembleSize=1,
                managedLedgerDefaultWriteQuorum=1,
                managedLedgerDefaultAckQuorum=1,
                managedLedgerCacheSizeMB=32,
                numIOThreads=2,
                numHttpServerThreads=8,
                numExecutorThreadPoolSize=2,
                bookkeeperClientNumWorkerThreads=2,
                # Bundles move when a test says so.
                loadBalancerEnabled="true",
                loadBalancerSheddingEnabled="false",
                loadBalancerAutoBundleSplitEnabled="false",
                brokerDeleteInactiveTopicsEnabled="false",
                acknowledgmentAtBatchIndexLevelEnabled="true",
                brokerShutdownTimeoutMs=1_000,
            )

    def _write(self, name: str, **settings: object) -> None:
        (self.directory / name).write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def _initialize_metadata(self) -> None:
        zookeeper = f"zk:127.0.0.1:{self._zookeeper_port}"
        command = [*self._java(192), "org.apache.pulsar.PulsarClusterMetadataSetup", "--cluster", CLUSTER]
        command += ["--metadata-store", zookeeper, "--configuration-metadata-store", zookeeper]
        command += ["--web-service-url", self.brokers[0].admin_url, "--broker-service-url", self.brokers[0].service_url]
        done = subprocess.run(
            command,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=150,
        )
        if done.returncode != 0:
            raise CannotStart(f"the cluster's metadata could not be initialised:\n{done.stdout}{done.stderr}")

    def _wait_for_broker(self, number: int) -> None:
        node = self.brokers[number]

        def serves() -> bool:
            try:
                return _http("GET", node.admin_url + "/admin/v2/brokers/ready")[0] == 200
            except OSError:
                return False

        node.process.wait_until(serves, START_TIMEOUT_S)


@contextmanager
def pulsar_cluster(directory: Path) -> Iterator[PulsarCluster]:
    """A started cluster, ended with the block."""
    cluster = PulsarCluster(directory)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def main() -> int:
    """The program of the module's docstring."""
    signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    with pulsar_cluster(Path(sys.argv[1])) as cluster:
        print(f"ready {cluster.service_url} {' '.join(node.admin_url for node in cluster.brokers)}", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
