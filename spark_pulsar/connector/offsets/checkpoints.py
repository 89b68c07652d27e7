"""Checkpoints: where a stopped query stands, read from the directory that Spark keeps for it (OFFSET-25).

A query goes on from a checkpoint of StreamNative's connector by `source_offset` (OFFSET-24); this module reads either's
as files. Spark writes `offsets/N` before it reads micro-batch N, one line for each source after a version and a line of
settings, and `commits/N` after it is done. Sources that have names are lines `name:offset`. StreamNative's connector
keeps the start of a query in `sources/I/0`; this one keeps it in the first offset.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.connector.errors import OffsetError
from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.options.serialized_ids import from_signed_bytes, position_of, word_of
from spark_pulsar.connector.positions import EARLIEST, ReadPosition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_PATTERNS: Final = ("offsets/*", "commits/*", "sources/*/0")


def committed_positions(checkpoint: str, spark: SparkSession | None = None) -> dict[str, ReadPosition]:
    """Returns the positions after the last micro-batch that is committed; where none is, the start of the first one,
    as far as the checkpoint has it. Raises OffsetError."""
    files = _files(checkpoint, spark)
    offsets, commits = (_numbered(files, log) for log in ("offsets", "commits"))
    if not offsets and not any(name.startswith("sources/") for name in files):
        raise OffsetError(f"{checkpoint!r} is no checkpoint of a streaming query: it has no offsets")
    number = max(commits, default=None)
    if number is None:
        return _start(checkpoint, files, offsets)
    if number not in offsets:
        raise OffsetError(f"{checkpoint!r} has no offsets of micro-batch {number}, which is committed")
    return _united(checkpoint, {name: offset.positions for name, offset in _offsets_of_pulsar(offsets[number])})


def _start(checkpoint: str, files: Mapping[str, str], offsets: Mapping[int, str]) -> dict[str, ReadPosition]:
    """Returns the start of a query without a commit, by its first offset or by `sources/I/0`."""
    first = dict(_offsets_of_pulsar(offsets[0])) if 0 in offsets else {}
    starts: dict[str, Mapping[str, ReadPosition]] = {
        name: offset.initial for name, offset in first.items() if offset.initial is not None
    }
    for path, text in files.items():
        match = re.fullmatch(r"sources/([^/]+)/0", path)
        loaded = _loaded(text.partition("\n")[2]) if match else None
        if match and isinstance(loaded, dict) and "version" not in loaded:
            end = first.get(match[1])
            starts[match[1]] = {
                topic: _first_position(topic, numbers, end) for topic, numbers in loaded.items() if numbers
            }
    return _united(checkpoint, starts)


def _first_position(topic: str, numbers: Any, end: SourceOffset | None) -> ReadPosition:
    """Returns the start of a partition that StreamNative's connector noted: a message that is read first, but for the
    one at which the first micro-batch ends, too."""
    data = from_signed_bytes(topic, numbers)
    if word_of(data) is not None:
        return EARLIEST
    after = position_of(data, after=True)
    return after if end is not None and end.positions.get(topic) == after else position_of(data)


def _united(checkpoint: str, by_source: Mapping[str, Mapping[str, ReadPosition]]) -> dict[str, ReadPosition]:
    if not by_source:
        raise OffsetError(f"{checkpoint!r} has no offset of a source of Pulsar")
    united: dict[str, ReadPosition] = {}
    for positions in by_source.values():
        for topic, position in positions.items():
            if united.setdefault(topic, position) != position:
                raise OffsetError(
                    f"two sources of the query in {checkpoint!r} read {topic}, up to {united[topic]} and {position}: "
                    "give startingOffsets of each by message ids"
                )
    return united


def _offsets_of_pulsar(text: str) -> Iterator[tuple[str, SourceOffset]]:
    """Yields the name, or the number, and the offset of each source of Pulsar in a file of `offsets`."""
    version, *lines = text.splitlines()
    for number, line in enumerate(lines[1:]):
        name, _, rest = line.partition(":{")
        is_named = version == "v2" and bool(rest) and not name.startswith("{")
        loaded = _loaded("{" + rest if is_named else line)
        if not isinstance(loaded, dict):
            continue
        try:
            yield name if is_named else str(number), SourceOffset.from_json(loaded)
        except OffsetError:
            if "version" in loaded and "positions" in loaded:  # ours, and damaged or of a later version
                raise


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _numbered(files: Mapping[str, str], log: str) -> dict[int, str]:
    names = (name.removeprefix(f"{log}/") for name in files if name.startswith(f"{log}/"))
    return {int(name): files[f"{log}/{name}"] for name in names if name.isdecimal()}


def _files(checkpoint: str, spark: SparkSession | None) -> dict[str, str]:
    """Returns the texts of the files of a checkpoint that say where it stands, by their paths below it."""
    place = checkpoint.rstrip("/")
    if spark is not None:
        return dict(_by_spark(place, spark))
    if place.startswith("file:"):
        place = "/" + place.removeprefix("file:").lstrip("/")
    if not _ADDRESS.match(place):
        return dict(_local(Path(place)))
    return dict(_by_fsspec(place))


def _local(directory: Path) -> Iterator[tuple[str, str]]:
    for pattern in _PATTERNS:
        for path in directory.glob(pattern):
            if path.name.isdecimal():
                yield path.relative_to(directory).as_posix(), path.read_text(encoding="utf-8")


def _by_spark(place: str, spark: SparkSession) -> Iterator[tuple[str, str]]:
    from pyspark.errors import AnalysisException

    for pattern in _PATTERNS:
        try:
            rows = spark.read.format("binaryFile").load(f"{place}/{pattern}").select("path", "content").collect()
        except AnalysisException:  # no such directory
            continue
        below = pattern.count("/") + 1
        for row in rows:
            yield "/".join(row["path"].split("/")[-below:]), bytes(row["content"]).decode()


def _by_fsspec(place: str) -> Iterator[tuple[str, str]]:
    try:
        import fsspec  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        raise OffsetError(
            f"{place!r} is not on this machine: give the session that reads it, spark=…, or install fsspec"
        ) from None
    system, root = fsspec.core.url_to_fs(place)
    for pattern in _PATTERNS:
        below = pattern.count("/") + 1
        for path in system.glob(f"{root}/{pattern}"):
            if path.rpartition("/")[2].isdecimal():
                yield "/".join(path.split("/")[-below:]), system.cat_file(path).decode()
