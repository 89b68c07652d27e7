"""Topics whose policy limits the size of an entry (ADM-55). The limit of the broker, `maxMessageSize`, is one of
frames, and is kept in `wire.protocol.frames` (PR-10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.model.errors import NotAllowed
from spark_pulsar.wire.sends.send_runs import CHUNK

from .parts import parts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.wire.sends.send_runs import SendRun

    from .parts import Part

TOO_LARGE: Final = NotAllowed("Exceed maximum message size")
"""Answer to a SEND above the limit of its topic."""


class MessageSizes:
    """Topics in use that limit the size of an entry, below the limit of the broker."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.limits: dict[Topic, int] = {}
        """Most bytes of an entry, by topic; every run of SENDs reads its own."""

    def adopt(self, topic: Topic) -> None:
        """Adds or removes a topic that comes into use, or has other policies."""
        limit = self._core.policies_of(topic.name).max_message_size_bytes
        if 0 < limit < self._core.config.max_message_size_bytes:
            self.limits[topic] = limit
        else:
            self.limits.pop(topic, None)

    def remove_topic(self, topic: Topic) -> None:
        """Removes a topic that is deleted."""
        self.limits.pop(topic, None)


def allowed_parts(sends: SendRun, limit_bytes: int) -> Iterable[Part]:
    """Yields a run in parts: entries within the limit, and those that are refused. Chunks always fit: their message is
    larger than any limit."""
    if sends.flags & CHUNK:
        return ((sends, None),)
    return parts(
        sends, [end - start <= limit_bytes for start, end in zip(sends.starts, sends.ends, strict=True)], TOO_LARGE
    )
