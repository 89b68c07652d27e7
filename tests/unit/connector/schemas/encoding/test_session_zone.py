"""Local times and instants as Spark casts them, in any zone that a session may name."""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.encoding.session_zone import arrow_zone, as_instants, as_local_times

LOCAL = [
    datetime.datetime(2023, 3, 12, 2, 30),  # a clock in New York skips it
    datetime.datetime(2023, 11, 5, 1, 30),  # and shows this one twice
    datetime.datetime(1901, 1, 2, 0, 0, 0, 7),
    datetime.datetime(2023, 7, 1),
    None,
]


@pytest.mark.parametrize("zone", ["America/New_York", "+05:30", "Australia/Lord_Howe"])
def test_local_times_are_instants_as_javas_clock_has_them(zone: str) -> None:
    # covers SCHEMA-11
    instants = as_instants(pa.array(LOCAL, pa.timestamp("us")), zone)
    offset = datetime.timezone(datetime.timedelta(hours=5, minutes=30))
    info = offset if zone.startswith("+") else ZoneInfo(zone)
    expected = [each and each.replace(tzinfo=info).astimezone(datetime.UTC) for each in LOCAL]
    assert [each and each.astimezone(datetime.UTC) for each in instants.to_pylist()] == expected
    assert as_local_times(instants, zone).to_pylist()[2:] == LOCAL[2:]


def test_zones_have_javas_spellings() -> None:
    # covers SCHEMA-11
    names = ["GMT+8", "UTC-3:30", "+5", "Z", "PST", "EST", "Etc/GMT+8", "Europe/Paris"]
    known = ["+08:00", "-03:30", "+05:00", "UTC", "America/Los_Angeles", "-05:00", "Etc/GMT+8", "Europe/Paris"]
    assert [arrow_zone(name) for name in names] == known
    with pytest.raises(SchemaError, match=r"timeZone is Mars/Base, which is no zone"):
        as_instants(pa.array(LOCAL, pa.timestamp("us")), "Mars/Base")
