"""Namespaces and topics of single tests."""

from __future__ import annotations

import re
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from spark_pulsar.model.errors import PulsarError
from spark_pulsar.testing.admin import AdminError
from spark_pulsar.testing.process import LOG_TAIL_LINES, BrokerProcess
from spark_pulsar.testing.running import PulsarUnderTest

_NAME_CHARS: Final = 80
_ATTEMPTS: Final = 3
_OF_MARKER: Final = frozenset(("partitions", "rows", "file", "key", "schema_type"))


@contextmanager
def fresh_namespace(broker: PulsarUnderTest, tenant: str) -> Iterator[str]:
    """Creates a namespace, and deletes it with its topics."""
    _check_alive(broker)
    admin = broker.admin()
    name = f"{tenant}/pytest-{uuid.uuid4().hex[:12]}"
    try:
        admin.create_namespace(name)
    except AdminError as error:
        raise pytest.fail.Exception(f"the fixture pulsar_namespace: {error}", pytrace=False) from None
    except PulsarError as error:
        raise pytest.fail.Exception(f"pulsar_tenant = {tenant}: {error}", pytrace=False) from None
    yield name
    if not broker.is_running:
        return  # it has ended with the test, and its data with it
    for left in reversed(range(_ATTEMPTS)):
        try:
            admin.delete_namespace(name, force=True)
            return
        except AdminError as error:
            # A consumer that is still open has connected again, and made its topic again.
            if not left:
                warnings.warn(pytest.PytestWarning(f"namespace {name} is left over: {error}"), stacklevel=1)


def _check_alive(broker: PulsarUnderTest) -> None:
    if isinstance(broker, BrokerProcess) and not broker.is_running:
        tail = "\n".join(broker.log.splitlines()[-LOG_TAIL_LINES:])
        pytest.fail(
            f"the broker of this session {broker.state.partition(' (')[0]}: a test that ends it starts it again "
            f"(pulsar_broker.restart()), or takes one of its own: spark_pulsar.broker_process()\n{tail}",
            pytrace=False,
        )


class Topics:
    """The topics of a test."""

    def __init__(self, broker: PulsarUnderTest, namespace: str, test: str, folder: Path) -> None:
        """`test`: the name of the test, with its parameters; `folder`: that of the test's file, where its files are."""
        self._broker = broker
        self._admin = broker.admin()
        self._namespace = namespace
        self._test = test
        self._folder = folder

    def create(self, name: str = "", partitions: int = 0, **messages: Any) -> str:
        """Creates a topic, of the test's name unless another is given, and returns its full name. `messages` are the
        arguments of `BrokerProcess.seed`: `rows` or `file`, `key`, `schema_type`."""
        local = name or _topic_of(self._test)
        topic = f"persistent://{self._namespace}/{local}"
        try:
            self._admin.create_topic(topic, partitions)
        except AdminError as error:
            raise pytest.fail.Exception(f"a topic for the test: {error}", pytrace=False) from None
        if messages:
            if messages.get("file") is not None:
                messages["file"] = self._folder / messages["file"]
            try:
                self._broker.seed(topic, **messages)
            except (ValueError, OSError, ImportError, RuntimeError, PulsarError) as error:
                raise pytest.fail.Exception(f"messages for the test: {error}", pytrace=False) from None
        return topic


def _topic_of(test: str) -> str:
    readable = re.sub(r"[^A-Za-z0-9_.=:-]+", "-", test)[:_NAME_CHARS].strip("-")
    return readable.replace("-partition-", "-partition_")  # the other is the name of a partition


def arguments_of(marker: pytest.Mark | None) -> dict[str, Any]:
    """Reads the marker `pulsar_topic`; without it a topic has no partitions and no messages."""
    given = {} if marker is None else dict(marker.kwargs)
    partitions = given.get("partitions", 0)
    is_number = isinstance(partitions, int) and not isinstance(partitions, bool) and partitions >= 0
    if (marker is not None and marker.args) or not is_number or not given.keys() <= _OF_MARKER:
        pytest.fail(
            "the marker takes a number of partitions, and messages: @pytest.mark.pulsar_topic(partitions=3), "
            '@pytest.mark.pulsar_topic(file="orders.jsonl", key="customer")',
            pytrace=False,
        )
    return given
