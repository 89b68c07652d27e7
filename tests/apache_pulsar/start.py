"""Start Apache Pulsar standalone on 127.0.0.1, in one of the versions that the suites know.

As a program:

    python -m tests.apache_pulsar.start --data DIR [--version 4.2.4] [--port P] [--http-port P] [--set key=value …]

It prints `ready pulsar://… http://…` when the broker serves, and runs until SIGTERM or SIGINT, which ends Pulsar, too.
Needs Java 17 or newer, and Maven for the very first start.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import zlib
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

VERSIONS = ("4.0.8", "4.2.4", "5.0.0-M1")
"""Versions of Apache Pulsar that start here; `pom.xml` has a profile for each. The first is the judge of our broker."""
CHOSEN_VERSION = "APACHE_PULSAR_VERSION"
"""Variable of the environment that names another version for a run."""
HERE = Path(__file__).resolve().parent
POM = HERE / "pom.xml"
CACHE = Path.home() / ".cache" / "apache-pulsar"
START_TIMEOUT_S = 150.0
ANSWER_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 30.0
LOG_LINES_SHOWN = 40
_LISTENING_PORTS = (15_000, 30_000)

# Netty's, RocksDB's and Pulsar's own reflection into the JDK.
_OPENED_PACKAGES = (
    "java.base/java.nio",
    "java.base/java.util.zip",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform",
    "java.base/sun.net",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)
_SIDES = ("Bookie", "Client")
_METADATA_DRIVERS = "org.apache.pulsar.metadata.bookkeeper.PulsarMetadata"


class CannotStart(Exception):
    """Something needed is missing, or Pulsar ended before it served; the message says what, and how to mend it."""


def chosen_version() -> str:
    """Returns the version of Apache Pulsar that this run is on: that of the environment, else the judge's.

    Raises:
        CannotStart: The environment names a version that the suites do not know.
    """
    version = os.environ.get(CHOSEN_VERSION) or VERSIONS[0]
    if version not in VERSIONS:
        raise CannotStart(f"there is no Apache Pulsar {version} here; {CHOSEN_VERSION} is one of {', '.join(VERSIONS)}")
    return version


def class_path_file() -> Path:
    """Returns the file that remembers the class path of the chosen version.

    There is one for each content of `pom.xml`, so that a new dependency is not missed where an older class path is
    remembered.
    """
    return CACHE / f"{chosen_version()}-{zlib.crc32(POM.read_bytes()):08x}.classpath"


def class_path() -> str:
    """Returns the jars of the chosen Apache Pulsar, colon-separated; Maven resolves them from Maven Central once (about
    270 MB), then they are remembered.

    Raises:
        CannotStart: Maven is needed and missing, or failed.
    """
    return resolved_class_path(f"Apache Pulsar {chosen_version()} (about 270 MB)", POM, class_path_file())


def resolved_class_path(what: str, pom: Path, remembered_in: Path) -> str:
    """Returns the jars that `pom` depends on in the chosen version, colon-separated; Maven resolves them from Maven
    Central once, then they are remembered in a file.

    Raises:
        CannotStart: Maven is needed and missing, or failed.
    """
    if remembered_in.exists():
        remembered = remembered_in.read_text().strip()
        if remembered and all(Path(jar).exists() for jar in remembered.split(":")):
            return remembered
    if shutil.which("mvn") is None:
        raise CannotStart(f"{what} is resolved by Maven, which is missing: apt-get install -y maven")
    remembered_in.parent.mkdir(parents=True, exist_ok=True)
    print(f"resolving {what} from Maven Central, once ...", file=sys.stderr, flush=True)
    fresh = remembered_in.with_suffix(f".{os.getpid()}")
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath"
    command = ["mvn", "--quiet", "--batch-mode", "--file", str(pom), goal, f"-Dmdep.outputFile={fresh}"]
    command.append(f"-Dpulsar.version={chosen_version()}")
    done = subprocess.run(command, stdout=sys.stderr, check=False)
    if done.returncode != 0:
        raise CannotStart(f"Maven could not resolve {what} (status {done.returncode}); its message is above")
    fresh.replace(remembered_in)
    return remembered_in.read_text().strip()


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that were free a moment ago, below those that the system gives to outgoing connections: one of
    these may be in use by the time that Pulsar, or Pulsar restarted, wants to listen on it."""
    sockets: list[socket.socket] = []
    try:
        while len(sockets) < count:
            with contextlib.suppress(OSError):
                sockets.append(socket.create_server(("127.0.0.1", random.randrange(*_LISTENING_PORTS))))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class ApachePulsar:
    """One Apache Pulsar process on its own ports and data directory.

    Attributes:
        service_url: `pulsar://127.0.0.1:PORT`.
        admin_url: `http://127.0.0.1:PORT`.
        data_dir: Ledgers, metadata, the written configuration and `pulsar.log`.
    """

    def __init__(
        self,
        data_dir: Path,
        port: int,
        http_port: int,
        bookie_port: int,
        conf: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`headers`: of the requests that tell when it is ready, for one that asks for credentials."""
        self.service_url = f"pulsar://127.0.0.1:{port}"
        self.admin_url = f"http://127.0.0.1:{http_port}"
        self.data_dir = data_dir.resolve()
        self._bookie_port = bookie_port
        self._conf = {"brokerServicePort": str(port), "webServicePort": str(http_port), **conf}
        self._headers = dict(headers or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Process id of the Java process."""
        if self._process is None:
            raise CannotStart("Apache Pulsar is not running")
        return self._process.pid

    @property
    def log_path(self) -> Path:
        """What Pulsar prints, all starts one after another."""
        return self.data_dir / "pulsar.log"

    def start(self) -> None:
        """Run Pulsar and return when it owns its namespace and stores and reads messages.

        Raises:
            CannotStart: Java is missing, or Pulsar ended early or took too long (with the end of its log).
        """
        if shutil.which("java") is None:
            raise CannotStart("Apache Pulsar needs Java 17 or newer: apt-get install -y openjdk-17-jre-headless")
        self.data_dir.mkdir(parents=True, exist_ok=True)
        conf_path = self.data_dir / "standalone.conf"
        lines = [(HERE / "standalone.conf").read_text(), *(f"{key}={value}" for key, value in self._conf.items())]
        conf_path.write_text("\n".join(lines) + "\n")
        # Java unpacks 13 MB of native libraries at every start, and a killed process leaves them.
        shutil.rmtree(self._scratch_dir, ignore_errors=True)
        self._scratch_dir.mkdir()
        command = self._command(conf_path)
        if self._metadata_dir.exists():
            self._forget_bookie()
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.data_dir, start_new_session=True
            )
        self._wait_until_ready()

    def stop(self) -> None:
        """End Pulsar in order (SIGTERM), or by force when it takes longer than half a minute."""
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._process = None

    def kill(self) -> None:
        """End Pulsar at once (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Start again on the same ports and data, after a stop in order if it is running."""
        self.stop()
        self.start()

    def wait(self) -> int:
        """Block until Pulsar ends; its exit status."""
        return self._process.wait() if self._process else 0

    @property
    def _metadata_dir(self) -> Path:
        return self.data_dir / "metadata"

    @property
    def _bookkeeper_dir(self) -> Path:
        return self.data_dir / "bookkeeper"

    @property
    def _scratch_dir(self) -> Path:
        return self.data_dir / "tmp"

    def _java(self, *options: str) -> list[str]:
        common = [f"-Dlog4j2.configurationFile={HERE / 'log4j2.xml'}", f"-Djava.io.tmpdir={self._scratch_dir}"]
        return ["java", *options, *common, "-classpath", class_path()]

    def _forget_bookie(self) -> None:
        """Remove the registration of a bookie that was killed.

        A starting bookie that finds one replaces it, and takes the notice of that deletion, should it come late, for
        the loss of its new registration: it replaces that one, too, which is noticed again, and so on for ever (as in
        https://github.com/apache/pulsar/issues/17759). Under such a broker hardly any topic can be loaded. Listing the
        bookies from a process of its own is enough: whoever lists them drops the entries of earlier processes.
        """
        conf_path = self.data_dir / "bookie.conf"
        directories = [f"{kind}Directories={self._bookkeeper_dir}" for kind in ("ledger", "journal")]
        lines = [f"metadataServiceUri=metadata-store:rocksdb://{self._metadata_dir}", *directories]
        conf_path.write_text("\n".join(lines) + "\n")
        drivers = [f"-Dbookkeeper.metadata.{one.lower()}.drivers={_METADATA_DRIVERS}{one}Driver" for one in _SIDES]
        command = self._java("-Xmx256m", "-XX:TieredStopAtLevel=1", *drivers)
        command += ["org.apache.bookkeeper.bookie.BookieShell", "-conf", str(conf_path), "listbookies", "-rw"]
        with self.log_path.open("ab") as log:
            # Its status says whether there are bookies: there are none.
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.data_dir, check=False)

    def _command(self, conf_path: Path) -> list[str]:
        jvm = ["-Xms768m", "-Xmx1g", "-XX:MaxDirectMemorySize=2g", "-Dio.netty.tryReflectionSetAccessible=true"]
        jvm += [f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED_PACKAGES]
        jvm += os.environ.get("PULSAR_EXTRA_OPTS", "").split()  # as bin/pulsar takes them
        # No functions worker, no stream storage: the broker, the bookie and the metadata store are what is judged.
        pulsar = ["--config", str(conf_path), "--no-functions-worker", "--no-stream-storage"]
        pulsar += ["--bookkeeper-dir", str(self._bookkeeper_dir), "--metadata-dir", str(self._metadata_dir)]
        if chosen_version() < "5":  # from then on its bookie chooses a port of its own
            pulsar += ["--bookkeeper-port", str(self._bookie_port)]
        return [*self._java(*jvm), "org.apache.pulsar.PulsarStandaloneStarter", *pulsar]

    def _wait_until_ready(self) -> None:
        # The lookup makes the broker own its namespace, so that no client is told "not ready" any more; the health
        # check loads a topic, stores a message and reads it back.
        steps = deque(["/lookup/v2/topic/persistent/public/default/ready", "/admin/v2/brokers/health"])
        deadline = time.monotonic() + START_TIMEOUT_S
        pause = threading.Event()
        process = self._process
        while steps and process is not None and process.poll() is None and time.monotonic() < deadline:
            try:
                request = urllib.request.Request(self.admin_url + steps[0], headers=self._headers)
                with urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT_S) as answer:
                    answer.read()
            except OSError as error:
                if isinstance(error, urllib.error.HTTPError):
                    error.close()
                pause.wait(0.1)
            else:
                steps.popleft()
        if not steps:
            return
        self.kill()
        tail = "\n".join(self.log_path.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:])
        raise CannotStart(f"Apache Pulsar did not get ready; the end of {self.log_path}:\n{tail}")


def apache_pulsar(
    data_dir: Path, conf: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
) -> ApachePulsar:
    """A started Apache Pulsar on free ports. The caller calls `stop()`. `headers`: as of `ApachePulsar`."""
    port, http_port, bookie_port = free_ports(3)
    server = ApachePulsar(data_dir, port, http_port, bookie_port, conf or {}, headers)
    server.start()
    return server


def main() -> int:
    """The program of the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="data directory, kept afterwards")
    parser.add_argument("--version", choices=VERSIONS, help=f"{VERSIONS[0]}, or what {CHOSEN_VERSION} names")
    parser.add_argument("--port", type=int, default=6650)
    parser.add_argument("--http-port", type=int, default=8080)
    parser.add_argument(
        "--set", action="append", default=[], metavar="key=value", help="any key of Pulsar's standalone.conf"
    )
    args = parser.parse_args()
    if args.version:
        os.environ[CHOSEN_VERSION] = args.version
    conf = dict(setting.split("=", 1) for setting in args.set)
    server = ApachePulsar(args.data, args.port, args.http_port, free_ports(1)[0], conf)

    def end(_signal: int, _frame: FrameType | None) -> None:
        os.kill(server.pid, signal.SIGTERM)

    try:
        server.start()
    except CannotStart as error:
        print(error, file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    print(f"ready {server.service_url} {server.admin_url}", flush=True)
    server.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
