"""The commands of docs/jobs.md in their order print what the page shows, up to the sensors.

With those of test_jobs_onwards.py a dozen starts of Spark over a whole year of flights: the long form of test_jobs.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest
from flights import read_flights
from sensor_gaps import Finding, odd
from weather import Reading, read_weather

from tests.jobs.page import COMMANDS, ONWARDS, ROOT, TIMEOUT_S, Command, Shell, missing


def oddities(readings: list[Reading]) -> Iterator[Finding]:
    """Yields what is odd in the readings of each station."""
    last: dict[str, Reading] = {}
    for reading in readings:
        before = last.get(reading.origin)
        last_ms, last_f = (None, None) if before is None else (before.hour_ms, before.temp_f)
        yield from odd(reading.origin, last_ms, last_f, reading.hour_ms, reading.temp_f, reading.wind_mph)
        last[reading.origin] = reading


@pytest.mark.long
@pytest.mark.timeout(TIMEOUT_S + 30)
@pytest.mark.parametrize("command", COMMANDS[:ONWARDS], ids=str)
def test_a_command_prints_what_the_page_says(shell: Shell, command: Command) -> None:
    assert missing(shell, command) == []


def test_the_page_runs_all_jobs() -> None:
    programs = {path.name for path in (ROOT / "jobs").glob("*.py") if "spark-submit jobs/" in path.read_text()}
    run = set(re.findall(r"spark-submit jobs/(\w+\.py)", "".join(command.text for command in COMMANDS)))
    assert run == programs - {"check_installation.py"}


@pytest.mark.long
def test_flights_with_weather_are_counted_without_spark() -> None:
    winds = {(reading.origin, reading.hour_ms) for reading in read_weather() if reading.wind_mph is not None}
    departed = [flight for flight in read_flights() if flight.dep_delay is not None]
    count = sum((flight.origin, flight.scheduled_ms) in winds for flight in departed)
    [command] = [command for command in COMMANDS if "flights_weather" in command.text]
    assert f"{count:,} flights with their weather" in command.output


def test_oddities_of_a_whole_year() -> None:
    findings = list(oddities(read_weather()))
    assert Counter(finding.kind for finding in findings) == {"gap": 45, "jump": 2, "wind": 1}
    assert [round(finding.amount) for finding in findings if finding.kind != "gap"] == [1048, -44, 44]
