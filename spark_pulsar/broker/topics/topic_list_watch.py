"""Topic list watchers: WATCH_TOPIC_LIST (MT-2; wire-protocol 2.6, 5.13).

A watcher hears of the persistent topics and partitions that match its pattern as they come and go, system topics left
out. What happens in one turn is told at once, when it is on disk.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from sys import intern
from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.entities import registry
from spark_pulsar.broker.entities.features import TopicListWatcher
from spark_pulsar.model.errors import InvalidTopicName, NotAllowed
from spark_pulsar.model.names import split_namespace
from spark_pulsar.wire import commands
from spark_pulsar.wire.hashes import hash_of_sorted
from spark_pulsar.wire.pulsar_api_pb2 import CommandWatchTopicList, CommandWatchTopicListClose

from .topic_patterns import InvalidPattern, TopicPattern

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.session import Session
    from spark_pulsar.model.names import TopicName

MAX_WATCHERS_PER_SESSION: Final = 1_000
"""Watchers of one connection: names are remembered for each pattern."""
_FEW: Final = 16
"""Names that are put into a sorted list one by one; it is sorted anew for more."""


class WatchedList:
    """The names that match one pattern, as told to its watchers. The texts are shared with all other lists: thousands
    may watch as many names."""

    __slots__ = ("_hash", "knows", "names", "namespace", "pattern", "watchers")

    def __init__(self, namespace: str, pattern: TopicPattern, names: Iterable[str], knows: int) -> None:
        self.namespace = namespace
        self.pattern = pattern
        self.names = [*map(intern, names)]
        """Names, rising."""
        self.knows = knows
        """Number of the last changes that are in `names`, told or not."""
        self.watchers: dict[TopicListWatcher, None] = {}
        self._hash: str | None = None

    @property
    def hash(self) -> str:
        """Hash that clients compare lists by."""
        if self._hash is None:
            self._hash = hash_of_sorted(self.names)
        return self._hash

    def take(self, came: list[TopicName], gone: list[TopicName]) -> tuple[list[str], list[str]]:
        """Adds and removes names; returns those that were not there, and those that were."""
        names = self.names
        new = [intern(name) for name in sorted(self.pattern.select(came)) if not self._has(name)]
        lost = sorted(name.full for name in gone if self._has(name.full))
        if len(new) + len(lost) <= _FEW:
            for name in lost:
                del names[bisect_left(names, name)]
            for name in new:
                insort(names, name)
        else:
            self.names = sorted((set(names) - set(lost)).union(new))
        if new or lost:
            self._hash = None
        return new, lost

    def _has(self, name: str) -> bool:
        at = bisect_left(self.names, name)
        return at < len(self.names) and self.names[at] == name


@dataclass(slots=True)
class Changes:
    """Topics that were created and deleted by the records of one group."""

    group: int
    number: int
    names: dict[TopicName, bool] = field(default_factory=dict)
    """Topic → True when it was created, False when it was deleted."""


class TopicWatchers:
    """All watchers, by namespace and pattern: names are matched once for all watchers of a pattern."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, WatchedList]] = {}
        self._changes: Changes | None = None
        self._made = self._told = 0
        """Numbers of the last changes that were begun, and told."""

    def list_of(self, core: Core, tenant: str, namespace: str, text: str) -> tuple[WatchedList, list[str], str]:
        """Finds the list of a pattern, its present names, and their hash, which may be ahead of what its watchers were
        told. InvalidPattern when it is none."""
        full = f"{tenant}/{namespace}"
        known = self._by_namespace.get(full, {}).get(text)
        if known is not None and known.knows >= self._made:
            return known, known.names, known.hash
        pattern = TopicPattern(text) if known is None else known.pattern
        names = pattern.select([name for name in registry.names_in(core, tenant, namespace) if is_watched(name)])
        names.sort()
        if known is None:
            known = WatchedList(full, pattern, names, self._made)
            return known, known.names, known.hash
        return known, names, hash_of_sorted(names)

    def add(self, session: Session, watcher_id: int, watched: WatchedList) -> None:
        """Adds a watcher to a list that its session was told."""
        watcher = TopicListWatcher(session, watcher_id, watched, self._made)
        self._changes = None  # what comes later in this turn is news to it
        self._by_namespace.setdefault(watched.namespace, {})[watched.pattern.text] = watched
        watched.watchers[watcher] = None
        session.watchers[watcher_id] = watcher

    def remove(self, watcher: TopicListWatcher) -> None:
        """Removes a watcher."""
        del watcher.session.watchers[watcher.watcher_id]
        watched = watcher.list
        del watched.watchers[watcher]
        if not watched.watchers:
            lists = self._by_namespace[watched.namespace]
            del lists[watched.pattern.text]
            if not lists:
                del self._by_namespace[watched.namespace]

    def changed(self, core: Core, name: TopicName, *, exists: bool) -> None:
        """Notes that a topic was created or deleted by a record of this turn."""
        if name.namespace_name not in self._by_namespace or not is_watched(name):
            return
        changes = self._changes
        if changes is None or changes.group != core.group_of_now:
            self._made += 1
            changes = self._changes = Changes(core.group_of_now, self._made)
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
            for watched in self._by_namespace.get(namespace, {}).values():
                if watched.knows < changes.number:
                    new, lost = watched.take(came, gone)
                    if new or lost:
                        _tell_all(core, watched, changes.number, new, lost)
        for lists in self._by_namespace.values():
            for watched in lists.values():
                watched.knows = max(watched.knows, changes.number)


def _tell_all(core: Core, watched: WatchedList, number: int, new: list[str], lost: list[str]) -> None:
    for watcher in watched.watchers:
        if watcher.knows < number:
            update = commands.watch_topic_update(watcher.watcher_id, new, lost, watched.hash)
            core.send(watcher.session, update)


def on_watch(core: Core, session: Session, command: CommandWatchTopicList) -> None:
    """WATCH_TOPIC_LIST: answers the names that match now, unless the client knows them by their hash, and tells changes
    from then on. A known id is watched anew."""
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
        watched, names, fingerprint = core.watchers.list_of(core, tenant, namespace, command.topics_pattern)
    except InvalidPattern as error:
        raise InvalidTopicName(f"Invalid topics pattern: {error}") from error
    if known is not None:
        core.watchers.remove(known)
    core.watchers.add(session, command.watcher_id, watched)
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
    """Tells whether watchers may hear of a topic."""
    return name.is_persistent and not name.is_hidden
