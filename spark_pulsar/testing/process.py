"""A broker as a child process: free ports, ready when started, nothing left behind."""

from __future__ import annotations

import contextlib
import html
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from spark_pulsar.model.arguments import naming_arguments
from spark_pulsar.testing.clients import close_client, open_admin, open_client
from spark_pulsar.testing.security import ADMIN_ROLE, ProcessSecurity, RoleAccess
from spark_pulsar.testing.seeding import Seeded

if TYPE_CHECKING:
    import pulsar

    from spark_pulsar.testing.admin import BrokerAdmin

READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 20.0
LOG_TAIL_LINES = 30
_MOST_PORT = 65535
_PORTS = {"--port": "pulsar", "--http-port": "http", "--tls-port": "pulsar+ssl", "--tls-http-port": "https"}
"""Options of the command line, and the schemes of the URLs at these ports."""


def _place_of_key(name: str) -> str:
    """Returns how a key of the configuration is given that was taken for an argument; "" for a name that is none."""
    from spark_pulsar.server.configuration.reading import KEYS

    return f'conf={{"{name}": …}}' if name in KEYS else ""


class BrokerDidNotStart(RuntimeError):
    """A broker that ended, or printed nothing, before it was ready; the message holds the end of its log."""


class BrokerProcess(Seeded):
    """A broker, its data directory and its ports; the process behind them can be killed and started again.

    `service_url` and `admin_url` are set by the first `start` and stay the same over restarts, so that clients
    reconnect. Made by `broker_process`; use it directly only to control the life of the child without a `with` block,
    and call `close` at the end.
    """

    _module = "spark_pulsar.cli.main"

    @naming_arguments(_place_of_key)
    def __init__(
        self,
        data_dir: str | Path | None = None,
        conf: Mapping[str, object] | str | Path | None = None,
        *,
        host: str = "127.0.0.1",
        port: int | None = 0,
        http_port: int | None = 0,
        token: bool = False,
        tls: bool = False,
    ) -> None:
        _check_arguments(data_dir, conf, host, {"port": port, "http_port": http_port}, {"token": token, "tls": tls})
        self._scratch = Path(tempfile.mkdtemp(prefix="spark-pulsar-"))
        try:
            self.data_dir = Path(data_dir) if data_dir is not None else self._scratch / "data"
            self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.security = ProcessSecurity(self._scratch / "security", host, token=token, tls=tls)
            """Keys and certificates of the broker; tokens and certificates of roles."""
            self._conf = self._write_conf(conf)
        except BaseException:
            shutil.rmtree(self._scratch, ignore_errors=True)
            raise
        self.log_path = self._scratch / "broker.log"
        """The file of `log` until `close`."""
        self._host = host
        binary, http = ("--tls-port", "--tls-http-port") if tls else ("--port", "--http-port")
        self._ports = {
            option: str(number) for option, number in ((binary, port), (http, http_port)) if number is not None
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        self._clients: list[weakref.ref[pulsar.Client]] = []
        self.service_url = ""
        self.admin_url = ""
        self.service_url_tls = ""
        """`pulsar+ssl://HOST:PORT`, empty without `brokerServicePortTls`."""
        self.admin_url_tls = ""
        """`https://HOST:PORT`, empty without `webServicePortTls`."""

    def _write_conf(self, conf: Mapping[str, object] | str | Path | None) -> Path | None:
        ours = "".join(f"{key}={value}\n" for key, value in self.security.conf.items())
        if not ours and (conf is None or isinstance(conf, str | Path)):
            return None if conf is None else Path(conf)
        if isinstance(conf, str | Path):
            theirs = Path(conf).read_text()
        else:
            from spark_pulsar.testing.configuration import properties

            theirs = properties(conf or {}, self.security.conf)
        path = self._scratch / "broker.conf"
        path.write_text(ours + theirs)  # a key that comes twice keeps its last value
        return path

    def __repr__(self) -> str:
        urls = "".join(f" {url}" for url in self._urls())
        return f"<BrokerProcess {self.state}{urls} data={self.data_dir}>"

    def _repr_html_(self) -> str:
        """Shows the broker in a notebook."""
        rows = {"state": self.state, **self._named_urls(), "data directory": self.data_dir, "log": self.log_path}
        cells = "".join(f"<tr><th>{name}</th><td>{_cell(str(value))}</td></tr>" for name, value in rows.items())
        return f"<table><caption>spark-pulsar broker</caption>{cells}</table>"

    def _urls(self) -> list[str]:
        return list(self._named_urls().values())

    def _named_urls(self) -> dict[str, str]:
        urls = {"service URL": self.service_url, "admin URL": self.admin_url}
        urls |= {"service URL, TLS": self.service_url_tls, "admin URL, TLS": self.admin_url_tls}
        seen: dict[str, str] = {}
        for name, url in urls.items():
            if url and url not in seen.values():
                seen[name] = url
        return seen

    @property
    def state(self) -> str:
        """State of the process in words: not started, running with its pid, stopped, ended with its status, closed."""
        if self._is_closed:
            return "closed"
        if self._process is None:
            return "stopped" if self.service_url else "not started"
        status = self._process.poll()
        return f"running (pid {self._process.pid})" if status is None else f"ended with status {status}"

    def client(self, role: str = ADMIN_ROLE, **settings: Any) -> pulsar.Client:
        """Makes an official client of a role: the super user, or no role without tokens, unless another one is named.

        `settings` are those of `pulsar.Client`; it logs warnings only unless `logger` says otherwise. Clients that are
        still open when the broker is closed are closed first.
        """
        client = open_client(self.as_role(role), settings)
        self._clients.append(weakref.ref(client))
        return client

    def admin(self, role: str = ADMIN_ROLE) -> BrokerAdmin:
        """Makes a client of the admin API."""
        return open_admin(self.as_role(role))

    def as_role(self, role: str) -> RoleAccess:
        """Returns the access of a role: options of the official client, of Spark and of the admin API, and its token.

        The broker is running, or was.
        """
        self._check_open()
        if not isinstance(role, str) or not role:
            raise ValueError(f"role is {role!r}: give the name of one")
        if not self.service_url:
            raise RuntimeError("the broker was not started yet")
        return self.security.access(role, self.service_url, self.admin_url)

    @property
    def client_options(self) -> dict[str, Any]:
        """Arguments of `pulsar.Client` as the super user, or as no role without tokens."""
        return self.as_role(ADMIN_ROLE).client_options

    @property
    def spark_options(self) -> dict[str, str]:
        """Options of `format("pulsar")` as the super user, or as no role without tokens."""
        return self.as_role(ADMIN_ROLE).spark_options

    @property
    def pid(self) -> int:
        """Process id of the running broker. Raises RuntimeError when it is stopped."""
        if self._process is None:
            raise RuntimeError("the broker is not running")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Returns whether the process is alive now."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """The broker's log (standard error) so far, all starts together."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def _check_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("the broker is closed, and its files are removed: make another one")

    def start(self, timeout_s: float = READY_TIMEOUT_S) -> Self:
        """Starts the broker, waits until it accepts connections, and returns this object.

        Raises BrokerDidNotStart after `timeout_s` seconds, or at once when the process ends before.
        """
        self._check_open()
        if self.is_running:
            raise RuntimeError("the broker is running")
        self.kill()  # one that ended by itself still has its pipe open
        command = [sys.executable, "-m", self._module, "broker", "--with-parent"]
        command += ["--data-dir", str(self.data_dir), "--host", self._host]
        for option, port in self._ports.items():
            command += [option, port]
        if self._conf is not None:
            command += ["--conf", str(self._conf)]
        with self.log_path.open("ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self._process = process
        output = _ReadyLine(process)
        if not output.wait(timeout_s):
            if output.ended:
                what = f"ended with status {process.wait(STOP_TIMEOUT_S)}"
            else:
                what = f"not ready within {timeout_s:g} s"
            self.kill()
            tail = "\n".join(self.log.splitlines()[-LOG_TAIL_LINES:])
            raise BrokerDidNotStart(f"broker on {self.data_dir}: {what}\n{tail}")
        urls = output.urls
        self.service_url_tls, self.admin_url_tls = urls.get("pulsar+ssl", ""), urls.get("https", "")
        self.service_url = urls.get("pulsar", self.service_url_tls)
        self.admin_url = urls.get("http", self.admin_url_tls)
        self._ports = {option: urls[scheme].rpartition(":")[2] for option, scheme in _PORTS.items() if scheme in urls}
        return self

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Ends the broker cleanly (SIGTERM) and returns its exit status, 0 when none was running.

        A broker that takes longer than `timeout_s` seconds is killed, and TimeoutExpired raised.
        """
        process = self._process
        if process is None:
            return 0
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(timeout_s)
        finally:
            self.kill()

    def kill(self) -> None:
        """Ends the broker with SIGKILL, as a crash does; nothing happens when it is not running."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()

    def restart(self, timeout_s: float = READY_TIMEOUT_S) -> Self:
        """Stops the broker if it runs, starts it again on the same data directory and the same ports, and returns this
        object."""
        self.stop()
        return self.start(timeout_s)

    def close(self) -> None:
        """Stops the broker and removes the files of this object: its log, and the data directory unless it was
        given."""
        self._is_closed = True
        try:
            if self.is_running:  # else they would wait for it
                self._close_clients()
            self.stop()
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _close_clients(self) -> None:
        clients, self._clients = self._clients, []
        for reference in clients:
            client = reference()
            if client is not None:
                close_client(client)

    def __enter__(self) -> Self:
        if self._process is None:
            try:
                self.start()
            except BaseException:
                self.close()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _check_arguments(
    data_dir: object,
    conf: object,
    host: object,
    ports: Mapping[str, object],
    switches: Mapping[str, object],
) -> None:
    """Refuses what no process can be started with, before anything is made. Raises ValueError."""
    if data_dir is not None and (not isinstance(data_dir, str | Path) or not str(data_dir)):
        raise ValueError(f"data_dir is {data_dir!r}: give a directory, or None for a temporary one")
    if data_dir is not None and Path(data_dir).exists() and not Path(data_dir).is_dir():
        raise ValueError(f"data_dir {data_dir} is a file: give a directory")
    if not isinstance(conf, str | Path | Mapping | None):
        raise ValueError(f"conf is {conf!r}: give a dictionary of keys and values, or the path of a broker.conf")
    if isinstance(conf, str | Path) and not Path(conf).is_file():
        key, separator, value = str(conf).partition("=")
        hint = f"; keys are given as a dictionary: conf={{{key!r}: {value!r}}}" if separator else ""
        raise ValueError(f"conf {conf}: there is no such file{hint}")
    if not isinstance(host, str) or not host:
        raise ValueError(f"host is {host!r}: give a name or an address, such as 127.0.0.1")
    for name, port in ports.items():
        if port is not None and (type(port) is not int or not 0 <= port <= _MOST_PORT):
            raise ValueError(f"{name} is {port!r}: give a number from 1 to {_MOST_PORT}, 0 for a free one, or None")
    for name, switch in switches.items():
        if not isinstance(switch, bool):
            kind = type(switch).__name__  # its value may be a token
            raise ValueError(f"{name} is of type {kind}: give True or False; tokens and certificates are made")


def _cell(text: str) -> str:
    shown = html.escape(text)
    return f'<a href="{shown}">{shown}</a>' if text.startswith(("http://", "https://")) else shown


class _ReadyLine:
    """A thread that waits for `ready pulsar://… http://… …` on a child's output, then reads on so that the child never
    blocks on it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._output = process.stdout
        self._settled = threading.Event()
        self.urls: dict[str, str] = {}
        """URLs by scheme."""
        self.ended = False
        threading.Thread(target=self._read, name=f"broker-{process.pid}-output", daemon=True).start()

    def _read(self) -> None:
        assert self._output is not None  # opened as a pipe by BrokerProcess.start
        with self._output as output:
            for line in output:
                words = line.decode(errors="replace").split()
                if words[:1] == ["ready"]:
                    self.urls = {url.partition("://")[0]: url for url in words[1:]}
                    self._settled.set()
        self.ended = True
        self._settled.set()

    def wait(self, timeout_s: float) -> bool:
        """Returns whether the line came within `timeout_s` seconds; false also when the output ended without it."""
        self._settled.wait(timeout_s)
        return bool(self.urls)


@naming_arguments(_place_of_key)
@contextlib.contextmanager
def broker_process(
    data_dir: str | Path | None = None,
    conf: Mapping[str, object] | str | Path | None = None,
    *,
    host: str = "127.0.0.1",
    port: int | None = 0,
    http_port: int | None = 0,
    token: bool = False,
    tls: bool = False,
) -> Iterator[BrokerProcess]:
    """Runs a broker as a child process for the length of a `with` block.

        with spark_pulsar.broker_process() as broker:
            client = pulsar.Client(broker.service_url)

    `data_dir`: where it keeps its data; by default a fresh temporary directory, removed at the end.
    `conf`: a configuration file, or keys of Pulsar's broker.conf with their values.
    `port`, `http_port`: 0 chooses free ones; None: those of `conf`.
    `token`: clients need a token, and permissions unless their role is `admin`.
    `tls`: the broker listens with TLS alone. Both need the extra `security`.

        with spark_pulsar.broker_process(token=True, tls=True) as broker:
            client = pulsar.Client(**broker.client_options)
            numbers = spark.read.format("pulsar").options(**broker.spark_options, topic="numbers").load()
            reader = pulsar.Client(**broker.as_role("reader").client_options)

    The broker accepts connections when the block begins. It ends with the block, or with this process however that
    ends. Raises BrokerDidNotStart, and ValueError for arguments that no broker can be started with.
    """
    with BrokerProcess(data_dir, conf, host=host, port=port, http_port=http_port, token=token, tls=tls) as broker:
        yield broker
