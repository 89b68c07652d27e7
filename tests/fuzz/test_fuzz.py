"""The short form of `make fuzz`: attacks of a fixed seed, judged by all that the long form is judged by."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from spark_pulsar.wire import pulsar_api_pb2 as api
from tests.cases import cases
from tests.fuzz import rest
from tests.fuzz.campaign import Campaign
from tests.fuzz.commands import TYPES, Memory, command
from tests.fuzz.stories import frame
from tests.fuzz.trees import encoded, tree_of

SEED = 20261123
ATTACKS = [200, pytest.param(900, marks=pytest.mark.long)]


@pytest.mark.parametrize("is_secured", [False, True], ids=["open", "TLS and authorization"])
@pytest.mark.parametrize("attacks", ATTACKS)
def test_a_campaign_finds_nothing(tmp_path: Path, attacks: int, is_secured: bool) -> None:
    outcome = Campaign(SEED, tmp_path, tls=is_secured, authorization=is_secured).run(range(attacks), seconds=90.0)
    print(outcome.text)
    assert not outcome.findings, "\n".join(outcome.findings)
    assert sum(outcome.attacks.values()) == attacks
    assert outcome.times_ms


# ---- the proof itself -----------------------------------------------------------------------------------------------


@cases("name", TYPES)
def test_commands_without_damage_are_commands(name: str) -> None:
    for seed in range(20):
        made = command(Random(seed), name, Memory())
        assert made.IsInitialized()
        assert api.BaseCommand.FromString(encoded(tree_of(made))) == made


def test_the_same_choices_make_the_same_frame() -> None:
    first, second = (frame(Random(7), "SEND", Memory(), 1.0) for _ in range(2))
    assert first == second


def test_every_field_of_a_type_may_be_drawn() -> None:
    drawn: set[str] = set()
    for seed in range(200):
        made = command(Random(seed), "SUBSCRIBE", Memory())
        drawn |= {field.name for field, _ in made.subscribe.ListFields()}
    assert drawn == set(api.CommandSubscribe.DESCRIPTOR.fields_by_name)


def test_held_back_calls_are_routes() -> None:
    routes = {(method, path) for path, methods in rest.ROUTES for method in methods}
    assert set(rest.HELD_BACK) <= routes
