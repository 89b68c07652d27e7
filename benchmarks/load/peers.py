"""The brokers under load: ours as a child on a fresh data directory, a real Apache Pulsar, or one that runs already."""

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import spark_pulsar
from load.connection import Connection
from load.secured import ACCESSES, Access
from tests.apache_pulsar.start import VERSIONS, chosen_version

ROOT = Path(__file__).resolve().parents[2]
OURS, SECURED, APACHE_PULSAR = "ours", "ours, secured", "apache-pulsar"
RUNNING_APACHE_PULSAR = "APACHE_PULSAR_URLS"

AGAINST = f"{APACHE_PULSAR}[=VERSION]"


class Against(NamedTuple):
    """The other broker of a run, as `--against` names it."""

    name: str
    version: str


def against(text: str, others: Mapping[str, str] | None = None) -> Against:
    """Reads `apache-pulsar`, `apache-pulsar=VERSION`, or the name of one of the others, whose versions are given.

    Raises:
        ArgumentTypeError: The broker or its version is unknown here; the message names those that are known.
    """
    name, equals, version = text.partition("=")
    others = others or {}
    if name in others and not equals:
        return Against(name, others[name])
    if name == APACHE_PULSAR:
        version = version if equals else chosen_version()
        if version in VERSIONS:
            return Against(name, version)
    known = [APACHE_PULSAR, *(f"{APACHE_PULSAR}={each}" for each in VERSIONS), *others]
    raise argparse.ArgumentTypeError(f"there is no {text} here; known are {', '.join(known)}")


@dataclass(frozen=True, slots=True)
class Peer:
    """A broker that serves; `pid` and `ready_s` (process start to first handshake) only if this run started it."""

    name: str
    service_url: str
    pid: int | None = None
    ready_s: float | None = None
    admin_url: str | None = None
    version: str = ""
    """Version of a broker that is not ours."""

    @property
    def title(self) -> str:
        """Name, and the version of a broker that is not ours."""
        return f"{self.name.removeprefix('apache-').capitalize()} {self.version}" if self.version else self.name

    def resident_mb(self) -> float | None:
        """Resident memory now, in MB of 10^6 bytes."""
        if self.pid is None:
            return None
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def processor_s(self) -> float:
        """Processor time used so far; 0 when this run did not start it."""
        if self.pid is None:
            return 0.0
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Stops this broker while another one is measured: work that it has put off is done in its own time.
        Nothing happens to a broker that this run did not start."""
        if self.pid is not None:
            os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            if self.pid is not None:
                os.kill(self.pid, signal.SIGCONT)


@contextlib.contextmanager
def fresh_directory(parent: Path) -> Iterator[Path]:
    """An empty directory on the disk of `parent`, removed at the end."""
    parent.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="load-", dir=parent))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def ours(data: Path, conf: Mapping[str, object] | None = None) -> Iterator[Peer]:
    """Our broker with its defaults, but for keys of `conf`."""
    with fresh_directory(data) as directory:
        started = time.perf_counter()
        with spark_pulsar.broker_process(directory, conf=conf) as process:
            Connection(process.service_url).close()
            try:
                yield Peer(OURS, process.service_url, process.pid, time.perf_counter() - started, process.admin_url)
            finally:
                sys.stderr.write(process.log)  # empty unless something went wrong


@contextlib.contextmanager
def secured(data: Path) -> Iterator[Peer]:
    """Our broker with TLS and tokens, as its super user."""
    with fresh_directory(data) as directory:
        started = time.perf_counter()
        with spark_pulsar.broker_process(directory, tls=True, token=True) as process:
            access = process.as_role("admin")
            context = access.tls_context()
            assert context is not None
            ACCESSES[process.service_url] = Access(context, access.token)
            Connection(process.service_url).close()
            yield Peer(SECURED, process.service_url, process.pid, time.perf_counter() - started)


@contextlib.contextmanager
def apache_pulsar(data: Path, version: str) -> Iterator[Peer]:
    """A real Apache Pulsar of that version, started here, or the running one that the environment names."""
    if running := os.environ.get(RUNNING_APACHE_PULSAR):
        service_url, *admin_urls = running.split()
        yield Peer(APACHE_PULSAR, service_url, admin_url=next(iter(admin_urls), None))
        return
    with fresh_directory(data) as directory:
        started = time.perf_counter()
        port, http_port = _free_ports(2)
        command = [sys.executable, "-m", "tests.apache_pulsar.start", "--data", str(directory)]
        command += ["--version", version, "--port", str(port), "--http-port", str(http_port)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            line = process.stdout.readline().split()
            if line[:1] != ["ready"]:
                raise RuntimeError("Apache Pulsar did not start; its log is above")
            Connection(line[1]).close()
            ready_s = time.perf_counter() - started
            java = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
            yield Peer(APACHE_PULSAR, line[1], java, ready_s, line[2], version)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            process.stdout.close()


def running(service_url: str) -> contextlib.AbstractContextManager[Peer]:
    """A broker that this run did not start."""
    return contextlib.nullcontext(Peer(service_url, service_url))


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]
