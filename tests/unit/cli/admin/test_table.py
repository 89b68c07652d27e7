"""The table of admin commands against the routes of the admin API."""

import re
from collections import Counter

from spark_pulsar.admin.app import ROUTES
from spark_pulsar.cli.admin.table import COMMANDS, GROUPS, WITHOUT_COMMAND

SERVED = {(method, path): "" for path, methods in ROUTES for method in methods}
WHOLE = {
    "{namespace}": "{tenant}/{namespace}",
    "{topic}": "{domain}/{tenant}/{namespace}/{topic}",
    "{topic_option}": "{tenant}/{namespace}/{topic}",
    "{local_topic}": "{tenant}/{namespace}/{topic}",
}


def shape(method: str, path: str) -> str:
    """A call with its placeholders made alike."""
    return f"{method} {re.sub(r'{[a-z_]+}', '{}', path.removeprefix('/'))}"


def called() -> dict[str, str]:
    """All calls of commands, with the name of one that makes it."""
    found = {}
    for command in COMMANDS:
        for method, path in ((command.method, command.path), *command.also):
            found[shape(method, re.sub(r"{\w+}", lambda part: WHOLE.get(part[0], part[0]), path))] = command.name
    return found


def test_every_command_calls_a_route() -> None:
    served = {shape(*route) for route in SERVED}
    assert {call: name for call, name in called().items() if call not in served} == {}


def test_every_route_has_a_command_or_a_reason() -> None:
    calls, reasoned = called(), {shape(*route.split(" ")) for route in WITHOUT_COMMAND}
    missing = [route for route in SERVED if shape(*route) not in calls.keys() | reasoned]
    assert missing == []
    assert [each for each in reasoned if each not in {shape(*route) for route in SERVED}] == []
    assert sorted(reasoned & calls.keys()) == []


def test_names_are_said_once_and_have_a_group() -> None:
    names = Counter(command.name for command in COMMANDS)
    assert [name for name, count in names.items() if count > 1] == []
    assert {command.group for command in COMMANDS} == GROUPS.keys()


def test_names_of_options_are_said_once() -> None:
    for command in COMMANDS:
        names = Counter(name for each in command.option_names() for name in each)
        assert [name for name, count in names.items() if count > 1] == [], command.name
