"""`spark-pulsar support-bundle`: a ZIP with versions, the doctor's report, configuration, statistics and logs."""

from __future__ import annotations

import json
import os
import platform
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import typer

from spark_pulsar import __version__
from spark_pulsar.cli.access.access import Access
from spark_pulsar.cli.output.progress import Progress
from spark_pulsar.cli.support.masking import masked, masked_settings, masked_value
from spark_pulsar.client.rest import RestApi, RestError
from spark_pulsar.model.errors import PulsarError

MEMBER_BYTES: Final = 8 << 20
"""Most bytes of a member; of a log they are its last ones."""
ALL_BYTES: Final = 64 << 20
"""Most bytes of all members, before they are compressed."""
_TIMEOUT_S: Final = 15.0
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
        except (RestError, PulsarError, OSError, ValueError) as error:
            self.missing.append(f"{name}: {masked(str(error))}")
        else:
            self.add(name, text)


def write_bundle(
    path: Path,
    access: Access,
    findings: Callable[[], list[dict[str, str]]],
    *,
    settings: Mapping[str, Path],
    logs: Iterable[Path],
) -> None:
    """Writes the file, readable by its owner alone. `findings` are the doctor's, `settings` are files of `name=value`
    lines by their names in it. Raises OSError."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        with (
            open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
            Progress("Collecting", len(_CALLS) + 2) as bar,
        ):
            bundle = Bundle(archive)
            bundle.add("versions.json", _json(_versions()))
            bundle.collect("doctor.json", lambda: _json(masked_value(findings())))
            bar.advance()
            for name, text in _answers(access):
                bundle.collect(name, text)
                bar.advance()
            for name, source in settings.items():
                bundle.collect(f"configuration/{name}", lambda source=source: masked_settings(_end_of(source)))  # type: ignore[misc]
            for number, log in enumerate(logs, start=1):
                bundle.collect(f"logs/{number}-{log.name}", lambda log=log: masked(_end_of(log)))  # type: ignore[misc]
            bundle.add("README.txt", _readme(access, bundle.missing))
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def logs_near(data_dir: Path) -> list[Path]:
    """Returns the logs of a broker that are where they usually are, the newest first."""
    paths = {
        log.resolve()
        for place in (Path.cwd(), data_dir)
        for pattern in _LOGS
        for log in (Path("/").glob(pattern[1:]) if pattern.startswith("/") else place.glob(pattern))
        if log.is_file()
    }
    return sorted(paths, key=lambda log: log.stat().st_mtime, reverse=True)[:_MOST_LOGS]


def _answers(access: Access) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yields members, and the calls whose answers they are; after one without an answer there are no more calls."""
    gone: list[RestError] = []

    def call(path: str, is_json: bool) -> str:
        if gone:
            raise gone[0]
        try:
            answer = RestApi(access.url, access.headers(), access.tls_context(), timeout_s=_TIMEOUT_S).call("GET", path)
        except RestError as error:
            if not error.status:
                gone.append(error)
            raise
        return _json(masked_value(answer.value)) if is_json else masked(answer.body.decode(errors="replace"))

    for name, path in _CALLS.items():
        yield name, lambda path=path, name=name: call(path, name.endswith(".json"))  # type: ignore[misc]


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
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - MEMBER_BYTES))
        data = file.read(MEMBER_BYTES)
    return (data if size <= MEMBER_BYTES else data.partition(b"\n")[2]).decode(errors="replace")


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _readme(access: Access, missing: list[str]) -> str:
    lines = [
        f"Support bundle of spark-pulsar {__version__} for {access.url}",
        "",
        "Secrets, tokens and passwords are masked. Names of topics, subscriptions and roles, and addresses, are not:",
        "read the files before you send them.",
        "",
        "Missing:" if missing else "Nothing is missing.",
        *(f"- {text}" for text in missing),
    ]
    return "".join(f"{line}\n" for line in lines)


def report(path: Path) -> None:
    """Says on standard error what was written."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    typer.echo(
        f"{path}: {len(names)} files, {path.stat().st_size:,} bytes; secrets are masked, names are not", err=True
    )
