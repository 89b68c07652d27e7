"""Values on the command line of `spark-pulsar admin`, written as for `pulsar-admin`: sizes, times, names, pairs."""

import json
import re
import sys
from enum import StrEnum
from typing import Any, Final
from urllib.parse import quote

import typer

from spark_pulsar.model.errors import InvalidTopicName
from spark_pulsar.model.names import TopicName, split_namespace


class LogLevel(StrEnum):
    """Least severity of the lines of a log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


_SIZE_FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_TIME_FACTORS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400, "y": 365 * 86_400}
NO_LIMIT = -1
MOST_COUNT: Final = (1 << 63) - 1
"""Greatest number of an option: a long of Java, in which brokers and clients count."""
MOST_SECONDS: Final = 2_000_000
"""Longest time in seconds that a command waits: clients count milliseconds in 32 bits."""
ACCESS_PANEL: Final = "Access"
"""Group of the options of access in the help of a command, which ends with it."""
MIB = 1 << 20


def size_bytes(text: str) -> int:
    """Reads `4096`, `100K`, `10M`, `16G`, `2T` as bytes; `-1` is no limit."""
    match = re.fullmatch(r"(-?[0-9]+)([kmgt]?)", text.strip().lower())
    if match is None:
        raise typer.BadParameter(f"Invalid size '{text}'. Valid formats are: (4096, 100K, 10M, 16G, 2T)")
    return _in_range(int(match[1]) * _SIZE_FACTORS[match[2]], text)


def time_s(text: str) -> int:
    """Reads `90`, `30s`, `5m`, `3h`, `2d`, `5w`, `1y` as seconds; `-1` is no limit."""
    match = re.fullmatch(r"(-?[0-9]+)([smhdwy]?)", text.strip().lower())
    if match is None:
        raise typer.BadParameter(f"Invalid time '{text}'. Valid formats are: (90, 30s, 5m, 3h, 2d, 5w, 1y)")
    return _in_range(int(match[1]) * _TIME_FACTORS[match[2]], text, MOST_COUNT // 1000)


def _in_range(value: int, text: str, most: int = MOST_COUNT) -> int:
    if not -most <= value <= most:
        raise typer.BadParameter(f"{text!r} is out of range: want at most {most}")
    return value


def whole_mib(size: int) -> int:
    """Converts bytes to whole MiB, the unit of retention; no limit stays no limit."""
    return NO_LIMIT if size == NO_LIMIT else size // MIB


def whole_minutes(time: int) -> int:
    """Converts seconds to whole minutes, the unit of retention; no limit stays no limit."""
    return NO_LIMIT if time == NO_LIMIT else time // 60


def switched(enable: bool, disable: bool) -> bool:
    """Returns the value of a pair `--enable`, `--disable`, exactly one of which is given."""
    if enable == disable:
        raise typer.BadParameter("Need to specify either --enable or --disable")
    return enable


def namespace_path(text: str) -> str:
    """Returns the REST path of `tenant/namespace`."""
    try:
        tenant, namespace = split_namespace(text)
    except InvalidTopicName as error:
        hint = ": this takes a namespace, not a topic" if text.count("/") > 1 else ""
        raise typer.BadParameter(f"want <tenant>/<namespace>, got '{text}'{hint}") from error
    return f"/admin/v2/namespaces/{tenant}/{namespace}"


def segment(text: str) -> str:
    """Returns a name as one segment of a REST path."""
    return quote(text, safe="")


def topic_path(text: str) -> str:
    """Returns the REST path of a topic: `x`, `tenant/namespace/x`, or with `persistent://`."""
    name = topic_name(text)
    return f"/admin/v2/{name.domain}/{name.tenant}/{name.namespace}/{segment(name.local)}"


def topic_name(text: str) -> TopicName:
    """Parses the name of a topic."""
    try:
        return TopicName.parse(text)
    except InvalidTopicName as error:
        raise typer.BadParameter(error.message) from error


def pairs(texts: list[str] | None, hint: str | None = None) -> dict[str, str]:
    """Reads the values of an option `NAME=VALUE` that may be repeated; `hint` is the option in a refusal."""
    by_name = {}
    for text in texts or []:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise typer.BadParameter(f"want NAME=VALUE, got '{text}'", param_hint=hint)
        by_name[name] = value
    return by_name


def show(value: Any) -> None:
    """Prints an answer: objects as indented JSON, lists of texts a line each, anything else as it is."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        text = "".join(f"{item}\n" for item in value)
    elif isinstance(value, str):
        text = f"{value}\n"
    else:
        text = json.dumps(value, indent=2, separators=(",", " : "), ensure_ascii=False) + "\n"
    sys.stdout.write(text)
