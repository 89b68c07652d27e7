"""A broker that speaks only when spoken to, and one client on each side of its topic."""

import pytest

from tests.unit.broker.world import QUIET, Client, World


@pytest.fixture
def world() -> World:
    return World(**QUIET)


@pytest.fixture
def eater(world: World) -> Client:
    client = world.connect_consumer()
    return client


@pytest.fixture
def feeder(world: World) -> Client:
    client = world.connect_producer()
    return client
