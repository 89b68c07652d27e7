"""Life of a broker process: open, listen, say ready, serve, restart the core after a failure, close."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import os
import pwd
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from shutil import disk_usage
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from spark_pulsar.broker.configuration import dynamic_config
from spark_pulsar.broker.policies import documents
from spark_pulsar.ledger.state.documents import DYNAMIC_CONFIGURATION
from spark_pulsar.ledger.storage import StorageDamaged, StorageError
from spark_pulsar.storage.disk.directory_lock import Identity
from spark_pulsar.storage.disk.pending_operations import Underway
from spark_pulsar.storage.files import FileStorage

from .clock import Clock
from .connections.admission import Admission, Pending
from .connections.connection_memory import ConnectionMemory
from .connections.descriptors import ConnectionLimit, most_connections, raise_limit
from .connections.listening import Listening
from .connections.tls_connection import Handshakes
from .disk_watch import DiskWatch
from .engine import Engine, SharedByConnections
from .first_ledger import number_ledgers
from .log.start import logging_to_standard_error
from .security.tls import TlsContexts, TlsSettings

if TYPE_CHECKING:
    from spark_pulsar.ledger.state.durable_state import DurableState
    from spark_pulsar.ledger.storage import StorageFailed
    from spark_pulsar.server.configuration.server_config import ServerConfig

    from .security.http import HttpAuthenticator
    from .security.providers import Providers

_SWITCH_INTERVAL_S: Final = 0.0005
"""Time that the loop may keep the journal thread from the interpreter after an fdatasync."""

_FIRST_RETRY_S: Final = 0.1
_LAST_RETRY_S: Final = 10.0
_SHORT_LIFE_MS: Final = 10_000
"""A core that fails sooner than this after its start is restarted ever more slowly."""
_GC_THRESHOLDS: Final = (5_000, 3, 3_000)
"""Thresholds of the garbage collector. Runs, records and effects form no cycles; a search for some every 700 objects
would cost a tenth of the time, and one through 50,000 delays all clients for 15 ms."""

_LOG = logging.getLogger("spark_pulsar.server")


def run(config: ServerConfig) -> int:
    """Runs a broker until SIGTERM or SIGINT, closes it cleanly, and returns the exit status.

    Prints `ready pulsar://127.0.0.1:PORT http://127.0.0.1:PORT` on standard output when it accepts connections, with
    `pulsar+ssl://127.0.0.1:PORT` and `https://127.0.0.1:PORT` behind them where these ports are open; logs go to
    standard error. Raises OSError when it cannot start.
    """
    os.umask(0o077)  # for SQLite, which makes its files as the process's mask allows
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    with logging_to_standard_error(config.log_level, config.log_lines_of_host):
        loop = _new_loop()
        try:
            return loop.run_until_complete(_Runner(loop, config).main())
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # not on every platform
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def _providers_of(config: ServerConfig, clock: Callable[[], int]) -> Providers | None:
    from .security.providers import providers_of  # for secured brokers only

    return providers_of(config, clock)


def _authenticator_of(providers: Providers, config: ServerConfig) -> HttpAuthenticator:
    from .security.http import HttpAuthenticator

    return HttpAuthenticator(providers, config)


def _advertised(config: ServerConfig) -> list[str]:
    """Lists the hosts of the admin API that listeners advertise."""
    advertised = [listener.addresses for listener in config.broker.advertised_listeners]
    urls = [url for addresses in advertised for url in (addresses.http, addresses.http_tls) if url is not None]
    return [urlsplit(url).hostname or "" for url in urls]


def advice_on_owner(directory: Path) -> str:
    """Returns what to do about a directory, or something in it, that this user may not use."""
    above = (directory.absolute(), *directory.absolute().parents)
    place = next(path for path in above if os.path.exists(path))
    owner, user = _user(place.stat().st_uid), _user(os.geteuid())
    if owner == user:
        return f"The broker runs as {user}, who needs to read and write {place} and all below it"
    give = f"give {user} the directory {directory} and all below it"
    return f"{place} belongs to {owner}, and the broker runs as {user}: run it as {owner}, or {give}"


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _pending(what: str, config: ServerConfig, most_connections: int) -> Pending:
    """Limits connections that wait for their clients to the half of all at most."""
    most = min(config.max_pending or most_connections, most_connections // 2)
    return Pending(what, most, min(config.max_pending_per_ip or most, most))


class _NotReady(asyncio.Protocol):
    """A connection that comes while the core restarts: the client tries again."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


class _Runner:
    """The parts that live as long as the process, and the engine of the moment."""

    def __init__(self, loop: asyncio.AbstractEventLoop, config: ServerConfig) -> None:
        self._loop = loop
        self._config = config
        self._broker_config = config.broker
        self._clock = Clock()
        self._end = asyncio.Event()
        self._storage: FileStorage | None = None
        self._engine: Engine | None = None
        """Engine that serves; None while the core restarts."""
        self._engine_since_ms = 0
        self._short_lives = 0
        self._directory: Identity | None = None
        """Identity of the data directory, once it was opened: what stands at its path later must be the same."""
        self._underway = Underway(time.monotonic)
        self._disk_hangs = ""
        """Reason why the disk answers nothing, empty while it does."""
        self._disk_full = "", False
        """Last report of the storage about its space: reason (empty: there is space), stalled. It reports once."""
        self._restarting: asyncio.Task[None] | None = None
        self._reloading: asyncio.Task[None] | None = None
        """Task that checks for changed certificates."""
        self._most = most_connections(raise_limit())
        self._limit = ConnectionLimit(self._most.binary)
        pending = _pending("handshakes", config, self._most.binary)
        self._admission = Admission(config.max_connections, config.max_connections_per_ip, pending)
        self._memory = ConnectionMemory(config.connection_buffer_bytes, loop.time, loop.call_later)
        self._providers = (
            None if not config.broker.authentication_enabled else _providers_of(config, self._clock.wall_ms)
        )
        self._opener = ThreadPoolExecutor(1, thread_name_prefix="open")

    async def main(self) -> int:
        """Runs the broker from start to end."""
        config = self._config
        for name in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(name, self._end.set)
        listening = Listening(config)
        self._broker_config = replace(config.broker, ports=listening.ports)
        tls = self._tls_contexts(listening)
        watch = DiskWatch(self._underway, self._storage_hangs)
        opening = self._loop.run_in_executor(self._opener, self._open_storage)
        from spark_pulsar.admin.http.origins import AllowedHosts  # there is much to import, and the disk is at work

        from .web import HttpLimits, WebServer, WebSocketSettings

        websockets: WebSocketSettings | None = None
        if config.websocket_enabled:
            text_bytes, idle_ms = config.websocket_max_text_bytes, config.websocket_idle_ms
            websockets = WebSocketSettings(text_bytes, idle_ms, config.websocket_ping_s)

        try:
            self._start_engine(*await opening)
        except StorageError as error:
            _LOG.error("cannot open the data directory: %s%s", error, self._advice(error))
            listening.close()
            return 1
        hosts = AllowedHosts(config.broker.advertised_address, (*config.allowed_hosts, *_advertised(config)))
        authenticator = None if self._providers is None else _authenticator_of(self._providers, config)
        web = WebServer(
            lambda: self._engine,
            HttpLimits(
                self._most.http, config.http_max_head_bytes, _pending("HTTP connections", config, self._most.http)
            ),
            hosts,
            self._memory,
            authenticator,
            self._clock.wall_ms,
            websockets,
        )
        web.start(listening.http)
        servers = [await self._loop.create_server(self._new_connection, sock=sock) for sock in listening.binary]
        if tls is not None:
            handshakes = Handshakes(self._loop, lambda: tls.binary, self._has_room_beside, self._admission.pending)
            over = handshakes.over(self._new_connection)
            servers += [await self._loop.create_server(over, sock=sock) for sock in listening.binary_tls]
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        gc.enable()
        if config.with_parent:
            threading.Thread(target=self._watch_parent, name="parent", daemon=True).start()
        await web.started()
        if tls is not None:
            await web.serve_tls(listening.http_tls, lambda: tls.web)
            self._reloading = self._loop.create_task(self._reload(tls)) if config.tls_refresh_s else None
        listening.warn()
        with contextlib.suppress(OSError):  # a log that takes no more, or none: it serves all the same
            sys.stdout.write(f"{listening.ready_line()}\n")
            sys.stdout.flush()
        await self._end.wait()
        if self._reloading is not None:
            self._reloading.cancel()
        for server in servers:
            server.close()
        await web.stop()
        await self._close()
        watch.close()
        return 0

    # TLS

    def _tls_contexts(self, listening: Listening) -> TlsContexts | None:
        """Loads the certificate if a port needs one; no port stays open when that fails."""
        if not (listening.binary_tls or listening.http_tls):
            return None
        try:
            return TlsContexts(TlsSettings.of(self._config), TlsSettings.of_web(self._config))
        except OSError:
            listening.close()
            raise

    async def _reload(self, tls: TlsContexts) -> None:
        while True:
            await asyncio.sleep(self._config.tls_refresh_s)
            await asyncio.to_thread(tls.reload)

    def _has_room_beside(self, pending: int) -> bool:
        """Returns whether one more handshake may begin beside that number: each takes the place of a connection."""
        return self._limit.has_room(pending + (0 if self._engine is None else len(self._engine.connections)))

    # The engine

    def _open_storage(self) -> tuple[FileStorage, DurableState]:
        config = self._config
        storage, state = FileStorage.open(
            config.data_dir,
            on_failed=self._storage_failed,
            on_trouble=self._storage_trouble,
            on_disk_full=self._storage_full,
            sync_data=config.journal_sync,
            segment_bytes=config.journal_segment_bytes,
            expected=self._directory,
            underway=self._underway,
        )
        self._directory = storage.identity
        report = storage.report
        if report.strangers:
            others = ", ".join(report.strangers)
            _LOG.warning("%s is used as a new data directory, beside other files: %s", self._config.data_dir, others)
        if report.groups or report.notes:
            _LOG.info("recovered %d records of %d groups; %s", report.records, report.groups, "; ".join(report.notes))
        for damage in report.damage:
            _LOG.error("the journal is damaged: %s", damage)
        for file in report.set_aside:
            _LOG.warning("%s; `spark-pulsar check` on the data directory names what it holds", file)
        for topic in state.topics.values():
            if topic.damage is not None:
                _LOG.error("%s is read-only, it is damaged: %s", topic.name, topic.damage)
        for note in documents.notes(state):
            _LOG.warning("policies of %s", note)
        for note in dynamic_config.notes(state.documents[DYNAMIC_CONFIGURATION]):
            _LOG.info("dynamic configuration: %s", note)
        if report.torn_bytes:
            _LOG.info("cut a torn group of %d bytes at %s", report.torn_bytes, report.torn_at)
        number_ledgers(storage, state, self._clock.wall_ms())
        return storage, state

    def _advice(self, error: StorageError) -> str:
        """Advises on a data directory that cannot be opened; empty when the error says it all."""
        directory = self._config.data_dir
        if isinstance(error, StorageDamaged):
            return f". `spark-pulsar check {directory} --repair` lists the losses and goes on without them"
        cause = error.__cause__
        if isinstance(cause, PermissionError):
            return f". {advice_on_owner(directory)}"
        if isinstance(cause, OSError) and cause.errno not in (errno.ENOSPC, errno.EDQUOT):
            return ""
        with contextlib.suppress(OSError):
            free, needed = disk_usage(directory).free, self._config.journal_segment_bytes
            if free < needed:
                return f". {directory} has {free:,} bytes free; a new directory takes {needed:,} and a little more"
        return ""

    def _start_engine(self, storage: FileStorage, state: DurableState) -> None:
        self._storage = storage
        self._engine_since_ms = self._clock.now_ms()
        shared = SharedByConnections(self._limit.has_room, self._memory, self._admission, self._providers)
        self._engine = Engine(
            self._loop,
            storage,
            state,
            self._broker_config,
            self._clock,
            self._on_stopped,
            shared,
            self._config.data_dir,
        )
        reason, is_stalled = self._disk_full
        if reason:
            self._engine.on_disk_full(reason, is_stalled)
        if self._disk_hangs:
            self._engine.on_disk_hangs(self._disk_hangs)

    def _new_connection(self) -> asyncio.Protocol:
        return _NotReady() if self._engine is None else self._engine.new_connection()

    def _storage_failed(self, error: StorageFailed) -> None:
        """Runs in the journal's thread."""
        self._loop.call_soon_threadsafe(self._stop_engine, error)

    def _storage_trouble(self, error: Exception) -> None:
        """Runs in the settling thread."""
        self._loop.call_soon_threadsafe(self._report_trouble, error)

    def _storage_full(self, reason: str, is_stalled: bool) -> None:
        """Runs in threads of the storage."""
        self._loop.call_soon_threadsafe(self._report_disk_full, reason, is_stalled)

    def _storage_hangs(self, reason: str) -> None:
        """Runs in the thread that watches the disk."""
        self._loop.call_soon_threadsafe(self._note_disk_hangs, reason)

    def _note_disk_hangs(self, reason: str) -> None:
        self._disk_hangs = reason
        if self._engine is not None:
            self._engine.on_disk_hangs(reason)

    def _report_disk_full(self, reason: str, is_stalled: bool) -> None:
        self._disk_full = reason, is_stalled
        if self._engine is not None:
            self._engine.on_disk_full(reason, is_stalled)

    def _report_trouble(self, error: Exception) -> None:
        if self._engine is not None:
            self._engine.on_trouble("storing a checkpoint, next try in some seconds", error)

    def _stop_engine(self, error: StorageFailed) -> None:
        if self._engine is not None:
            self._engine.stop(error)

    def _on_stopped(self, error: BaseException) -> None:
        self._engine = None
        self._disk_full = "", False
        if not self._end.is_set():
            self._restarting = self._loop.create_task(self._restart())

    async def _restart(self) -> None:
        """Opens the storage again, as often as it takes, and starts a new engine on it."""
        storage, self._storage = self._storage, None
        delay_s = _FIRST_RETRY_S
        lived_ms = self._clock.now_ms() - self._engine_since_ms
        if lived_ms < _SHORT_LIFE_MS:  # it would only fail again
            self._short_lives += 1
            await asyncio.sleep(min(_FIRST_RETRY_S * 2**self._short_lives, _LAST_RETRY_S))
        else:
            self._short_lives = 0
        while True:
            try:
                if storage is not None:
                    closing, storage = storage, None
                    await self._loop.run_in_executor(self._opener, closing.close)
                opened = await self._loop.run_in_executor(self._opener, self._open_storage)
            except (StorageError, OSError) as error:
                _LOG.error("cannot open the data directory, next try in %.1f s: %s", delay_s, error)
                await asyncio.sleep(delay_s)
                delay_s = min(2 * delay_s, _LAST_RETRY_S)
            else:
                self._start_engine(*opened)
                _LOG.info("the core is back")
                return

    # The end

    async def _close(self) -> None:
        if self._restarting is not None:
            self._restarting.cancel()
        if self._engine is not None:
            self._engine.close()
        elif self._storage is not None:
            self._storage.close()
        if self._providers is not None:
            self._providers.close()
        self._opener.shutdown(wait=True)

    def _watch_parent(self) -> None:
        """Ends the broker when standard input ends, which it does when the parent is gone."""
        with contextlib.suppress(OSError):
            while os.read(0, 4096):  # not through sys.stdin: its lock would be held when the interpreter ends
                pass
        self._loop.call_soon_threadsafe(self._end.set)
