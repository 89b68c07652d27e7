"""`spark-pulsar support-bundle`: a ZIP with versions, the doctor's report, configuration, statistics and logs."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import re
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from threading import Thread
from typing import Any, Final

import typer

from spark_pulsar import __version__
from spark_pulsar.cli.access.access import Access
from spark_pulsar.cli.output.progress import Progress
from spark_pulsar.cli.support.masking import masked, masked_settings, masked_value
from spark_pulsar.client.rest import RestApi, RestError

MEMBER_BYTES: Final = 8 << 20
"""Most bytes of a member; of a log they are its last ones."""
ALL_BYTES: Final = 64 << 20
"""Most bytes of all members, before they are compressed."""
_TIMEOUT_S: Final = 15.0
"""Time of an answer, from the request to its last byte: a peer that sends a byte now and then is as good as silent."""
_DOCTORS_TIME_S: Final = 60.0
_CALLS: Final = {
    "broker/version.txt": "/admin/v2/brokers/version",
    "broker/health.txt": "/admin/v2/brokers/health",
    "broker/configuration.json": "/admin/v2/brokers/configuration/runtime",
    "broker/configuration-set-while-it-runs.json": "/admin/v2/brokers/configuration/values",
    "broker/internal-configuration.json": "/admin/v2/brokers/internal-configuration",
    "broker/clusters.json": "/admin/v2/clusters",
    "broker/tenants.json": "/admin/v2/tenants",
    "statistics/topics.json": "/admin/v2/broker-stats/topics",
    "statistics/load.json": "/admin/v2/broker-stats/load-report",
    "statistics/metrics.txt": "/metrics/",
}
"""Members that are answers of the admin API."""
_PACKAGES: Final = (
    *("pyspark", "numpy", "pyarrow", "pandas", "fastavro", "numba", "protobuf", "crc32c", "cramjam", "mmh3", "duckdb"),
    *("starlette", "uvicorn", "uvloop", "h11", "pulsar-client", "cryptography", "pyjwt", "typer", "rich"),
)
_MOST_LOGS: Final = 8
_LOGS: Final = ("*.log", "logs/*.log", "/var/log/spark-pulsar/*.log")
"""Places of logs, of the working directory and of the data directory."""


@dataclass(slots=True)
class Bundle:
    """Members of the file, as long as there is room, and what is missing in it."""

    archive: zipfile.ZipFile
    missing: list[str] = field(default_factory=list)
    _left: int = ALL_BYTES

    def add(self, name: str, text: str) -> None:
        """Adds a text whose secrets are masked already, or its beginning."""
        data = text.encode(errors="replace")
        room = min(MEMBER_BYTES, self._left)
        if len(data) > room:
            self.missing.append(f"{name}: {len(data) - room} of its {len(data)} bytes, for the size of this file")
        self.archive.writestr(name, data[:room])
        self._left -= min(len(data), room)

    def collect(self, name: str, content: Callable[[], str]) -> None:
        """Adds a text that may not be had."""
        try:
            text = content()
        except Exception as error:  # noqa: BLE001 the rest of the file is the more needed, the less works
            self.missing.append(f"{name}: {masked(str(error) or type(error).__name__)}")
        else:
            self.add(name, text)


class _Bounded(Thread):
    """Work that ends in time, or is left alone: the end of the command does not wait for it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._result: Any = None
        self._error: Exception | None = None

    def run(self) -> None:
        """Does the work."""
        try:
            self._result = self._work()
        except Exception as error:  # noqa: BLE001 raised by result()
            self._error = error

    def result(self, timeout_s: float) -> Any:
        """Starts the work and returns its result. Raises its error, and TimeoutError."""
        self.start()
        self.join(timeout_s)
        if self.is_alive():
            raise TimeoutError(f"not complete within {timeout_s:g} s")
        if self._error is not None:
            raise self._error
        return self._result


def write_bundle(
    path: Path,
    access: Access | str,
    findings: Callable[[], list[dict[str, str]]],
    *,
    settings: Mapping[str, Path],
    logs: Iterable[Path],
) -> None:
    """Writes the file, readable by its owner alone. `access` is that of the admin API, or the reason why there is none;
    `findings` are the doctor's, `settings` are files of `name=value` lines by their names in it. Raises OSError."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is no file")  # a device, whose place the file would take
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        with (
            open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
            Progress("Collecting", len(_CALLS) + 2) as bar,
        ):
            bundle = Bundle(archive)
            bundle.collect("versions.json", lambda: _json(_versions()))
            bundle.collect("doctor.json", lambda: _json(masked_value(_Bounded(findings).result(_DOCTORS_TIME_S))))
            bar.advance()
            for name, text in _answers(access):
                bundle.collect(name, text)
                bar.advance()
            for name, source in settings.items():
                bundle.collect(f"configuration/{name}", lambda source=source: masked_settings(_end_of(source)))  # type: ignore[misc]
            for number, log in enumerate(logs, start=1):
                bundle.collect(f"logs/{number}-{_plain(log.name)}", lambda log=log: masked(_end_of(log)))  # type: ignore[misc]
            bundle.add("README.txt", _readme(access, bundle.missing))
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def logs_near(data_dir: Path) -> list[Path]:
    """Returns the logs of a broker that are where they usually are, the newest first. A link that another user has made
    is none: it may lead to any file that the caller may read."""
    times_s: dict[Path, float] = {}
    for place in (Path.cwd(), data_dir):
        for pattern in _LOGS:
            for log in Path("/").glob(pattern[1:]) if pattern.startswith("/") else place.glob(pattern):
                with contextlib.suppress(OSError):  # it has gone, or may not be seen
                    if log.is_file() and (not log.is_symlink() or log.lstat().st_uid in (0, os.geteuid())):
                        times_s[log.resolve()] = log.stat().st_mtime
    return sorted(times_s, key=lambda log: times_s[log], reverse=True)[:_MOST_LOGS]


def _answers(access: Access | str) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yields members, and the calls whose answers they are; after one without an answer there are no more calls."""
    gone: list[Exception] = [ValueError(access)] if isinstance(access, str) else []

    def call(name: str, path: str) -> str:
        if gone or isinstance(access, str):
            raise gone[0]
        limits: dict[str, Any] = {"timeout_s": _TIMEOUT_S, "most_bytes": MEMBER_BYTES}
        api = RestApi(access.url, access.headers(), access.tls_context(), **limits)
        try:
            answer = _Bounded(lambda: api.call("GET", path)).result(_TIMEOUT_S)
        except (RestError, TimeoutError) as error:
            if not getattr(error, "status", 0):
                gone.append(error)
            raise
        value = answer.value if name.endswith(".json") else answer.body.decode(errors="replace")
        if isinstance(value, str):  # no JSON, or the beginning of a long one
            return masked(value)
        return _json(masked_value(value, inherits=not name.startswith("statistics/")))

    for name, path in _CALLS.items():
        yield name, lambda path=path, name=name: call(name, path)  # type: ignore[misc]


def _versions() -> dict[str, Any]:
    packages = {}
    for name in _PACKAGES:
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "spark-pulsar": __version__,
        "python": sys.version,
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "packages": packages,
    }


def _end_of(path: Path) -> str:
    """Returns the last bytes of a file as text, from the beginning of a line."""
    with path.open("rb") as file:
        if not file.seekable():  # of a command: --log <(journalctl …)
            return file.read(MEMBER_BYTES).decode(errors="replace")
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - MEMBER_BYTES))
        data = file.read(MEMBER_BYTES)
    return (data if size <= MEMBER_BYTES else data.partition(b"\n")[2]).decode(errors="replace")


def _plain(name: str) -> str:
    """Returns the name of a file in ZIP's characters."""
    return re.sub(r"[^\w.-]", "_", name)


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _readme(access: Access | str, missing: list[str]) -> str:
    lines = [
        f"Support bundle of spark-pulsar {__version__}" + ("" if isinstance(access, str) else f" for {access.url}"),
        "",
        "Secrets, tokens and passwords are masked. Names of topics, subscriptions and roles, and addresses, are not:",
        "read the files before you send them.",
        "",
        "Missing:" if missing else "Nothing is missing.",
        *(f"- {text}" for text in missing),
    ]
    return masked("".join(f"{line}\n" for line in lines))


def report(path: Path) -> None:
    """Says on standard error what was written."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    typer.echo(
        f"{path}: {len(names)} files, {path.stat().st_size:,} bytes; secrets are masked, names are not", err=True
    )
