"""The commands of docs/jobs.md from the exactly-once job on print what the page shows; see test_jobs_page.py."""

from __future__ import annotations

import pytest

from tests.jobs.page import COMMANDS, ONWARDS, TIMEOUT_S, Command, Shell, missing


@pytest.fixture(scope="module")
def flights(shell: Shell) -> Shell:
    """The shell, beside a broker with the flights and the weather."""
    shell.run(COMMANDS[0])
    return shell


@pytest.mark.long
@pytest.mark.timeout(TIMEOUT_S + 30, func_only=True)
@pytest.mark.parametrize("command", COMMANDS[ONWARDS:], ids=str)
def test_a_command_prints_what_the_page_says(flights: Shell, command: Command) -> None:
    # covers TRIM-2, ONCE-1
    assert missing(flights, command) == []
