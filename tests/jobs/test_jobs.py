"""The example jobs through spark-submit, on one broker that flight_replay.py has filled."""

import json
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from flights import Flight, read_flights
from sensor_gaps import Finding, odd
from weather import Reading, read_weather

import spark_pulsar
from tests.jobs.submitting import submit

FLIGHTS = 30_000


@dataclass(frozen=True)
class Jobs:
    """A broker with flights and weather, and a way to run jobs on it."""

    service_url: str
    admin_url: str

    def submit(self, job: str, *arguments: object) -> str:
        """Runs a job on the broker."""
        return submit(job, "--service-url", self.service_url, *arguments)

    def backlog(self, topic: str, subscription: str) -> int:
        """Messages of a partitioned topic that a subscription has not acknowledged."""
        path = f"/admin/v2/persistent/public/default/{topic}/partitioned-stats"
        with urllib.request.urlopen(self.admin_url + path, timeout=30) as answer:
            return int(json.load(answer)["subscriptions"][subscription]["msgBacklog"])


@pytest.fixture(scope="module")
def jobs() -> Iterator[Jobs]:
    with spark_pulsar.broker_process() as broker:
        ready = Jobs(broker.service_url, broker.admin_url)
        ready.submit(
            "flight_replay.py",
            *("--admin-url", broker.admin_url, "--partitions", 2),
            *("--weather-topic", "weather", "--limit", FLIGHTS, "--schema", "AVRO"),
        )
        yield ready


@pytest.fixture(scope="module")
def flights() -> list[Flight]:
    return read_flights(FLIGHTS)


@pytest.fixture(scope="module")
def weather(flights: list[Flight]) -> list[Reading]:
    return [reading for reading in read_weather() if reading.hour_ms <= flights[-1].scheduled_ms]


def test_each_flight_finds_its_weather_once(jobs: Jobs, flights: list[Flight], weather: list[Reading]) -> None:
    winds = {(reading.origin, reading.hour_ms) for reading in weather if reading.wind_mph is not None}
    departed = [flight for flight in flights if flight.dep_delay is not None]
    expected = sum((flight.origin, flight.scheduled_ms) in winds for flight in departed)
    printed = jobs.submit("flights_weather.py", "--expect", expected)
    assert f"{expected:,} flights with their weather" in printed


def test_sensors_are_compared_over_micro_batches_and_restarts(
    jobs: Jobs, weather: list[Reading], tmp_path: Path
) -> None:
    arguments = ("--checkpoint", tmp_path / "sensors", "--max-per-trigger", 500)
    first = jobs.submit("sensor_gaps.py", *arguments)
    assert f"{len(weather):,} readings in" in first
    kinds = Counter(finding.kind for finding in _findings(weather))
    assert kinds["gap"] > 0
    for kind, count in kinds.items():
        assert f"{kind:5} {count:,}" in first
    again = jobs.submit("sensor_gaps.py", *arguments)
    assert "0 readings in" in again
    assert again.splitlines()[-len(kinds) :] == first.splitlines()[-len(kinds) :]


def test_the_nightly_job_catches_up_and_comes_back_to_nothing(jobs: Jobs, tmp_path: Path) -> None:
    arguments = ("--output", tmp_path / "flights", "--checkpoint", tmp_path / "checkpoint", "--max-per-trigger", 20_000)
    first = jobs.submit("nightly_available_now.py", *arguments)
    assert "micro-batch 0: 20,000 rows" in first
    assert f"micro-batch 1: {FLIGHTS - 20_000:,} rows" in first
    assert "20,000 rows" not in jobs.submit("nightly_available_now.py", *arguments)
    assert jobs.backlog("flights", "nightly") == 0


def test_a_window_is_replayed_by_many_tasks(jobs: Jobs, tmp_path: Path) -> None:
    window = ("--from", "2020-01-01T00:00:00Z", "--until", "2100-01-01T00:00:00Z")
    printed = jobs.submit("replay_by_time.py", *window, "--verify", "--tasks", 5, "--output", tmp_path / "window")
    assert f"{FLIGHTS:,} messages in the window, read by 5 tasks" in printed
    assert f"a full read of {FLIGHTS:,} messages finds the same" in printed
    assert list((tmp_path / "window").glob("*.parquet"))


def test_a_killed_job_writes_each_flight_once(jobs: Jobs, flights: list[Flight]) -> None:
    # covers CONN-32
    printed = jobs.submit(
        "exactly_once_etl.py", "--admin-url", jobs.admin_url, "--kills", 2, "--seed", 1, "--max-per-trigger", 2_000
    )
    departed = sum(flight.dep_delay is not None for flight in flights)
    assert f"{departed:,} flights departed, {departed:,} messages in departed" in printed
    assert "equal counts and checksums" in printed


def test_oddities_of_a_whole_year() -> None:
    found = list(_findings(read_weather()))
    assert Counter(finding.kind for finding in found) == {"gap": 45, "jump": 2, "wind": 1}
    assert [round(finding.amount) for finding in found if finding.kind != "gap"] == [1048, -44, 44]


def _findings(readings: list[Reading]) -> Iterator[Finding]:
    last: dict[str, Reading] = {}
    for reading in readings:
        before = last.get(reading.origin)
        last_ms, last_f = (None, None) if before is None else (before.hour_ms, before.temp_f)
        yield from odd(reading.origin, last_ms, last_f, reading.hour_ms, reading.temp_f, reading.wind_mph)
        last[reading.origin] = reading
