"""Lists of the topics of a namespace, step by step (`entities.sliced_requests`): names that a pattern fits, their hash
(A20), their answer, in which each partition is a name (C12). Each step yields its cost; topics that are created or
deleted meanwhile are not in the list."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from spark_pulsar.model.names import is_hidden
from spark_pulsar.wire.protocol import commands

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.session import Session
    from spark_pulsar.wire.pulsar_api_pb2 import CommandGetTopicsOfNamespace

    from .topic_patterns import TopicPattern

STEP_COST: Final = 500
"""Cost of one step, about."""
_COST_OF_NAME: Final = 0.5
"""Cost of a name in a list without a pattern."""
_MATCHED: Final = 2.0
"""Cost of a name that is matched, beside that of the pattern."""
_LISTED: Final = 0.25
"""Cost of a name that is put into an answer, or hashed."""


def select(names: Sequence[str], pattern: TopicPattern | None) -> Generator[int, None, list[str]]:
    """Selects the names that may be shown, which those of system topics may not (TN-14), and that a pattern fits
    (MT-2)."""
    cost = _COST_OF_NAME if pattern is None else cost_of_match(pattern)
    count = max(1, int(STEP_COST / cost))
    selected: list[str] = []
    for at in range(0, len(names), count):
        shown = [name for name in names[at : at + count] if not is_hidden(name)]
        selected += shown if pattern is None else pattern.select(shown)
        yield int(cost * count)
    return selected


def cost_of_match(pattern: TopicPattern) -> float:
    """Returns the cost of matching a name."""
    return _MATCHED + pattern.cost


def hash_of(names: Sequence[str]) -> Generator[int, None, str]:
    """Hashes names that are in order."""
    count = int(STEP_COST / _LISTED)
    fingerprint = TopicsHash()
    for at in range(0, len(names), count):
        fingerprint.add(list(names[at : at + count]))
        yield STEP_COST
    return fingerprint.text()


def answer_listing(
    core: Core,
    session: Session,
    command: CommandGetTopicsOfNamespace,
    names: Sequence[str],
    pattern: TopicPattern | None,
) -> Generator[int, None, None]:
    """Answers GET_TOPICS_OF_NAMESPACE with those of the names that fit, unless the client knows them by their hash."""
    listed = yield from select(names, pattern)
    fingerprint = yield from hash_of(listed)
    changed = command.topics_hash != fingerprint
    answer = commands.topics_of_namespace(
        command.request_id, (), fingerprint, filtered=pattern is not None, changed=changed
    )
    if changed:
        yield from fill(answer.getTopicsOfNamespaceResponse.topics, listed)
    core.send(session, answer)
    yield int(len(listed) * _LISTED)


def fill(field: object, names: Sequence[str]) -> Generator[int, None, None]:
    """Puts names into a repeated field of an answer."""
    count = int(STEP_COST / _LISTED)
    for at in range(0, len(names), count):
        field.extend(names[at : at + count])  # type: ignore[attr-defined]
        yield STEP_COST


def topics_hash(topics: Iterable[str]) -> str:
    """Hashes a list of topic names, as GET_TOPICS_OF_NAMESPACE and watchers compare it (A20)."""
    return hash_of_sorted(sorted(topics))


def hash_of_sorted(topics: list[str]) -> str:
    """Hashes topic names that are in order already; see `topics_hash`."""
    return crc32c(",".join(topics).encode()).to_bytes(4, "little").hex()


class TopicsHash:
    """A hash of topic names that come piece by piece, in order; see `topics_hash`."""

    __slots__ = ("_crc", "_is_empty")

    def __init__(self) -> None:
        self._crc = 0
        self._is_empty = True

    def add(self, topics: list[str]) -> None:
        """Adds the next names."""
        if topics:
            text = ",".join(topics) if self._is_empty else f",{','.join(topics)}"
            self._crc = crc32c(text.encode(), self._crc)
            self._is_empty = False

    def text(self) -> str:
        """Returns the hash of all names so far."""
        return self._crc.to_bytes(4, "little").hex()
