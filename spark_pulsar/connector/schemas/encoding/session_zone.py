"""Time zone of the session: local times become instants in it, and instants local times, as Spark's casts do
(SCHEMA-11).

Spark passes the settings of the session to each task. Where `spark.sql.session.timeZone` is not among them, the zone is
the driver's: that of its Java option `user.timezone`, of the variable `TZ`, or of the machine. Only a cast of local
times depends on it; columns and values of a read depend on no setting (SCHEMA-10, `schemas.types.spark_types`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_pulsar.connector.errors import SchemaError

SESSION_ZONE: Final = "spark.sql.session.timeZone"
_JAVA_OPTIONS: Final = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
_JAVA_ZONE: Final = re.compile(r"-Duser\.timezone=[\"']?([^\s\"']+)")
_OFFSET: Final = re.compile(r"(?:GMT|UTC?)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?\d{2})?")
_ARROW_OFFSET: Final = re.compile(r"([+-])(\d\d):(\d\d)")
_IN_A_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_LOCALTIME: Final = Path("/etc/localtime")


def _no_setting(name: str) -> str | None:
    return None


_setting: Callable[[str], str | None] = _no_setting
_SHORT: Final = {
    "Z": "UTC", "GMT0": "UTC", "UT": "UTC", "ACT": "Australia/Darwin", "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires", "ART": "Africa/Cairo", "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka", "CAT": "Africa/Harare", "CNT": "America/St_Johns",
    "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi", "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh", "EST": "-05:00", "MST": "-07:00", "HST": "-10:00",
}  # fmt: skip
"""Java's short names, which Spark accepts as zones and the zone database lacks or gives another meaning."""


def begin_task_of(setting: Callable[[str], str | None]) -> None:
    """Names the settings of the session that this process now runs a task of."""
    global _setting
    _setting = setting


def session_zone() -> str:
    """Returns the time zone of the session that the task belongs to, in Arrow's spelling."""
    zone = _setting(SESSION_ZONE)
    if zone:
        return arrow_zone(zone)
    for name in _JAVA_OPTIONS:
        if match := _JAVA_ZONE.search(_setting(name) or ""):
            return arrow_zone(match[1])
    return arrow_zone(_machine_zone())


def _machine_zone() -> str:
    zone = os.environ.get("TZ", "").removeprefix(":")
    if not zone and _LOCALTIME.is_symlink():
        zone = str(_LOCALTIME.resolve()).partition("zoneinfo/")[2]
    return zone or "UTC"


def arrow_zone(zone: str) -> str:
    """Returns the spelling of a zone that Arrow reads: names of the zone database, or `+hh:mm`."""
    if zone in _SHORT:
        return _SHORT[zone]
    offset = _OFFSET.fullmatch(zone)
    return f"{offset[1]}{int(offset[2]):02}:{offset[3] or '00'}" if offset else zone


def with_arrow_zone(kind: Any) -> Any:
    """Returns a type with each time zone in Arrow's spelling: Spark passes on what the session has."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, arrow_zone(kind.tz))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(with_arrow_zone(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field.with_type(with_arrow_zone(kind.key_type)), with_arrow_zone(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(with_arrow_zone(kind.value_type)))
    return kind


def as_instants(array: Any, zone: str | None = None) -> Any:
    """Returns local times as the instants that they are in the zone of the session; other arrays as they are.

    As in Spark, a time that a clock shows twice is the first of both, and one that it skips lies as much later.
    """
    if not pa.types.is_timestamp(array.type) or array.type.tz is not None:
        return array
    zone = zone or session_zone()
    if (ahead := _ahead(zone, array.type.unit)) is not None:
        return pc.subtract(array.cast(pa.int64()), ahead).cast(pa.timestamp(array.type.unit, "UTC"))
    try:
        near = pc.assume_timezone(array, zone, ambiguous="earliest", nonexistent="earliest")
        offset = pc.subtract(pc.local_timestamp(near).cast(pa.int64()), near.cast(pa.int64()))
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise SchemaError(f"{SESSION_ZONE} is {zone}, which is no zone that this machine knows: {error}") from error
    return pc.subtract(array.cast(pa.int64()), offset).cast(pa.timestamp(array.type.unit, "UTC"))


def as_local_times(array: Any, zone: str | None = None) -> Any:
    """Returns instants as the local times of the zone of the session; other arrays as they are."""
    if not pa.types.is_timestamp(array.type) or array.type.tz is None:
        return array
    zone = zone or session_zone()
    if (ahead := _ahead(zone, array.type.unit)) is not None:
        return pc.add(array.cast(pa.int64()), ahead).cast(pa.timestamp(array.type.unit))
    try:
        return pc.local_timestamp(array.cast(pa.timestamp(array.type.unit, zone)))
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise SchemaError(f"{SESSION_ZONE} is {zone}, which is no zone that this machine knows: {error}") from error


def _ahead(zone: str, unit: str) -> int | None:
    """Returns how far a zone that is an offset lies ahead of UTC; None for other zones. Arrow 15 knows no offsets."""
    offset = _ARROW_OFFSET.fullmatch(zone)
    if offset is None:
        return None
    minutes = int(offset[2]) * 60 + int(offset[3])
    return (minutes if offset[1] == "+" else -minutes) * 60 * _IN_A_SECOND[unit]
