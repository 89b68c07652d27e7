"""Watching the list of a namespace's topics: WATCH_TOPIC_LIST (MT-2; wire-protocol 2.6, 5.13).

A watcher hears of the persistent topics and partitions that match its pattern as they come and go, system topics left
out. What happens in one turn is told at once, when it is on disk.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from spark_pulsar.model.errors import InvalidTopicName, NotAllowed
from spark_pulsar.model.names import split_namespace
from spark_pulsar.wire import commands
from spark_pulsar.wire.checksum import topics_hash
from spark_pulsar.wire.pulsar_api_pb2 import CommandWatchTopicList, CommandWatchTopicListClose

from . import topics
from .patterns import InvalidPattern, TopicPattern

if TYPE_CHECKING:
    from spark_pulsar.model.names import TopicName

    from .core import Core
    from .sessions import Session

MAX_WATCHERS_PER_SESSION: Final = 1_000
"""Each remembers the names that match; one connection may not fill the memory with them."""


class Watcher:
    """One pattern that a client watches, and the names that match it as far as it was told."""

    __slots__ = ("names", "namespace", "pattern", "session", "watcher_id")

    def __init__(
        self, session: Session, watcher_id: int, namespace: str, pattern: TopicPattern, names: Iterable[str]
    ) -> None:
        self.session = session
        self.watcher_id = watcher_id
        self.namespace = namespace
        self.pattern = pattern
        self.names = set(names)

    def take(self, came: list[TopicName], gone: list[TopicName]) -> tuple[list[str], list[str]]:
        """What of this is news; it knows it from now on."""
        new = [name for name in self.pattern.select(came) if name not in self.names]
        self.names.update(new)
        lost = [name.full for name in gone if name.full in self.names]
        self.names.difference_update(lost)
        return sorted(new), sorted(lost)


class Changes:
    """Topics that came and went in the records of one group."""

    __slots__ = ("group", "names")

    def __init__(self, group: int) -> None:
        self.group = group
        self.names: dict[TopicName, bool] = {}
        """Whether each exists."""


class TopicWatchers:
    """All watchers, by namespace."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, list[Watcher]] = {}
        self._changes: Changes | None = None

    def add(self, watcher: Watcher) -> None:
        """From now on it hears of changes."""
        self._by_namespace.setdefault(watcher.namespace, []).append(watcher)
        watcher.session.watchers[watcher.watcher_id] = watcher

    def remove(self, watcher: Watcher) -> None:
        """It hears nothing more."""
        del watcher.session.watchers[watcher.watcher_id]
        watchers = self._by_namespace[watcher.namespace]
        watchers.remove(watcher)
        if not watchers:
            del self._by_namespace[watcher.namespace]

    def changed(self, core: Core, name: TopicName, *, exists: bool) -> None:
        """A topic was created or deleted by a record of this turn."""
        if name.namespace_name not in self._by_namespace or not is_watched(name):
            return
        changes = self._changes
        if changes is None or changes.group != core.group_of_now:
            changes = self._changes = Changes(core.group_of_now)
            told = changes
            core.when_durable(lambda: self._tell(core, told))
        changes.names[name] = exists

    def _tell(self, core: Core, changes: Changes) -> None:
        if self._changes is changes:
            self._changes = None
        for namespace in dict.fromkeys(name.namespace_name for name in changes.names):
            own = {name: exists for name, exists in changes.names.items() if name.namespace_name == namespace}
            came = [name for name, exists in own.items() if exists]
            gone = [name for name, exists in own.items() if not exists]
            for watcher in self._by_namespace.get(namespace, ()):
                new, lost = watcher.take(came, gone)
                if new or lost:
                    update = commands.watch_topic_update(watcher.watcher_id, new, lost, topics_hash(watcher.names))
                    core.send(watcher.session, update)


def on_watch(core: Core, session: Session, command: CommandWatchTopicList) -> None:
    """WATCH_TOPIC_LIST: the names that match now, unless the client knows them by their hash, and news from then on.
    A known id is watched anew."""
    if not core.config.topic_patterns:
        raise NotAllowed("Unable to create topic list watcher: watching is switched off on this broker")
    longest = core.config.topic_pattern_max_length
    if len(command.topics_pattern) > longest:
        raise NotAllowed(f"Unable to create topic list watcher: Pattern longer than maximum: {longest}")
    known = session.watchers.get(command.watcher_id)
    if known is None and len(session.watchers) >= MAX_WATCHERS_PER_SESSION:
        raise NotAllowed(f"Unable to create topic list watcher: a connection has {MAX_WATCHERS_PER_SESSION} at most")
    tenant, namespace = split_namespace(command.namespace)
    try:
        pattern = TopicPattern(command.topics_pattern)
    except InvalidPattern as error:
        raise InvalidTopicName(f"Invalid topics pattern: {error}") from error
    if known is not None:
        core.watchers.remove(known)
    names = pattern.select([name for name in topics.names_in(core, tenant, namespace) if is_watched(name)])
    watcher = Watcher(session, command.watcher_id, f"{tenant}/{namespace}", pattern, names)
    core.watchers.add(watcher)
    fingerprint = topics_hash(names)
    told = () if command.topics_hash == fingerprint else names
    answer = commands.watch_topic_list_success(command.request_id, command.watcher_id, told, fingerprint)
    core.when_durable(lambda: core.send(session, answer))


def on_close(core: Core, session: Session, command: CommandWatchTopicListClose) -> None:
    """WATCH_TOPIC_LIST_CLOSE: SUCCESS, also for an unknown id."""
    watcher = session.watchers.get(command.watcher_id)
    if watcher is not None:
        core.watchers.remove(watcher)
    core.succeed(session, command.request_id)


def is_watched(name: TopicName) -> bool:
    """Whether watchers may hear of it."""
    return name.is_persistent and not name.is_hidden
