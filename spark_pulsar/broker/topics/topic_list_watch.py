"""Topic list watchers: WATCH_TOPIC_LIST (MT-2, A20).

A watcher hears of the persistent topics and partitions that match its pattern as they come and go, system topics left
out. Changes of one turn are sent at once, when they are on disk. Lists are found and sent step by step, so that many
topics delay no other session (`entities.sliced_requests`).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.entities import registry
from spark_pulsar.broker.entities.features import TopicListWatcher
from spark_pulsar.broker.entities.sliced_requests import NO_SESSION
from spark_pulsar.model.errors import InvalidTopicName, NotAllowed
from spark_pulsar.model.names import PERSISTENT, split_namespace
from spark_pulsar.wire.protocol import commands
from spark_pulsar.wire.pulsar_api_pb2 import CommandWatchTopicList, CommandWatchTopicListClose

from . import topic_lists
from .topic_patterns import InvalidPattern, TopicPattern, UnsupportedPattern
from .watched_creation import WatchedCreations

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.session import Session
    from spark_pulsar.model.names import TopicName

MAX_WATCHERS_PER_SESSION: Final = 1_000
"""Watchers of one connection: names are remembered for each pattern."""
_FEW: Final = 16
"""Names that are put into a sorted list one by one; it is merged anew for more."""
_MOST_ROUNDS: Final = 3
"""Times that a list is hashed step by step while topics come and go."""
_UPDATE_COST: Final = 10
_SENT_A_MICROSECOND: Final = 4
_MERGED_A_MICROSECOND: Final = 20
"""Costs of notifying a watcher, and of names (`entities.sliced_requests`)."""
_DOMAIN_LENGTH: Final = len("persistent://")


class WatchedList:
    """The names that match one pattern, as sent to its watchers. The texts are shared with all other lists: thousands
    may watch as many names."""

    __slots__ = ("hash", "knows", "missed", "names", "namespace", "pattern", "watchers")

    def __init__(self, namespace: str, pattern: TopicPattern, knows: int) -> None:
        self.namespace = namespace
        self.pattern = pattern
        self.names: list[str] = []
        """Names, rising."""
        self.hash = ""
        """Hash that clients compare lists by."""
        self.knows = knows
        """Number of the last changes that are in `names`, sent or not."""
        self.missed: dict[str, bool] = {}
        """Topics that came (True) and went while `names` are found."""
        self.watchers: dict[TopicListWatcher, None] = {}

    def find(self, names: Sequence[str]) -> Generator[int, None, None]:
        """Finds the names that match among those of now, step by step; those that come and go meanwhile are put into
        `missed`."""
        self.names = yield from topic_lists.select(names, self.pattern)
        for _ in range(_MOST_ROUNDS):
            self._apply_missed()
            self.hash = yield from topic_lists.hash_of(self.names)
            if not self.missed:
                return
        self._apply_missed()
        self.hash = topic_lists.hash_of_sorted(self.names)

    def _apply_missed(self) -> None:
        missed, self.missed = self.missed, {}
        came = [name for name, exists in missed.items() if exists]
        self.apply(came, [name for name, exists in missed.items() if not exists])

    def apply(self, came: list[str], gone: list[str]) -> tuple[list[str], list[str]]:
        """Adds and removes names; returns those that were not there, and those that were. The hash is another then."""
        names = self.names
        new = [name for name in sorted(self.pattern.select(came)) if not self._has(name)]
        lost = sorted(name for name in gone if self._has(name))
        if len(new) + len(lost) <= _FEW:
            for name in lost:
                del names[bisect_left(names, name)]
            for name in new:
                insort(names, name)
        else:
            without = set(lost)
            names = [name for name in names if name not in without] if without else [*names]
            names += new
            names.sort()  # two runs in order: a merge
            self.names = names
        return new, lost

    def _has(self, name: str) -> bool:
        at = bisect_left(self.names, name)
        return at < len(self.names) and self.names[at] == name


@dataclass(slots=True)
class Changes:
    """Topics that were created and deleted by the records of one group."""

    group: int
    number: int
    names: dict[str, bool] = field(default_factory=dict)
    """Full name → True when the topic was created, False when it was deleted."""


class TopicWatchers:
    """All watchers, by namespace and pattern: names are matched once for all watchers of a pattern."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, WatchedList]] = {}
        self._being_found: dict[str, dict[WatchedList, None]] = {}
        """Lists whose names are found at this moment."""
        self._changes: Changes | None = None
        self._made = 0
        """Number of the last changes that were begun."""
        self._creations = WatchedCreations()

    def steps(
        self, core: Core, session: Session, command: CommandWatchTopicList, pattern: TopicPattern
    ) -> Generator[int, None, None]:
        """Answers WATCH_TOPIC_LIST with the names of now, and adds the watcher, step by step."""
        known = session.watchers.get(command.watcher_id)
        if known is None and len(session.watchers) >= MAX_WATCHERS_PER_SESSION:
            text = f"Unable to create topic list watcher: a connection has {MAX_WATCHERS_PER_SESSION} at most"
            core.fail(session, command.request_id, NotAllowed(text))
            return
        watched, names, fingerprint = yield from self._list_of(core, command.namespace, pattern)
        if known is not None:
            self.remove(known)
        self._add(session, command.watcher_id, watched)
        answer = commands.watch_topic_list_success(command.request_id, command.watcher_id, (), fingerprint)
        due = _Due(lambda: core.send(session, answer))  # before any later change is sent
        core.when_durable(due.count_down)
        if command.topics_hash != fingerprint:
            yield from topic_lists.fill(answer.watchTopicListSuccess.topic, names)
        due.count_down()

    def _list_of(
        self, core: Core, namespace: str, pattern: TopicPattern
    ) -> Generator[int, None, tuple[WatchedList, list[str], str]]:
        """Finds the list of a pattern, its present names, and their hash, which may be ahead of the names that its
        watchers received."""
        known = self._by_namespace.get(namespace, {}).get(pattern.text)
        if known is not None and known.knows >= self._made:
            return known, [*known.names], known.hash
        watched = WatchedList(namespace, pattern, self._made)
        being_found = self._being_found.setdefault(namespace, {})
        being_found[watched] = None
        try:
            yield from watched.find(registry.full_names_in(core, PERSISTENT, *split_namespace(namespace)))
        finally:
            del being_found[watched]
            if not being_found and self._being_found.get(namespace) is being_found:
                del self._being_found[namespace]
        watched.knows = self._made
        return self._by_namespace.get(namespace, {}).get(pattern.text, watched), [*watched.names], watched.hash

    def _add(self, session: Session, watcher_id: int, watched: WatchedList) -> None:
        """Adds a watcher to a list that is sent to its session."""
        watcher = TopicListWatcher(session, watcher_id, watched, self._made)
        self._changes = None  # topics created later in this turn are new to it
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
        namespace = name.namespace_name
        is_being_found = namespace in self._being_found
        if not (is_being_found or namespace in self._by_namespace) or not is_watched(name):
            return
        state = core.state.topics_by_name.get(name.full)
        full = name.full if state is None else state.name  # a text that all lists share
        if is_being_found:
            for watched in self._being_found[namespace]:
                watched.missed[full] = exists
        if namespace not in self._by_namespace:
            return
        changes = self._changes
        if changes is None or changes.group != core.group_of_now:
            self._made += 1
            changes = self._changes = Changes(core.group_of_now, self._made)
            made = changes
            core.when_durable(lambda: self._send(core, made))
        changes.names[full] = exists
        if exists:
            self._creations.begin(full)

    def when_joined(self, full_name: str, call: Callable[[], None]) -> None:
        """Calls when the watchers that hear of a new topic have joined it, for a bounded time (MT-4)."""
        self._creations.when_joined(full_name, call)

    def joined(self, full_name: str, session: Session) -> None:
        """Notes that a consumer of a session has joined a topic."""
        self._creations.joined(full_name, session)

    def _send(self, core: Core, changes: Changes) -> None:
        if self._changes is changes:
            self._changes = None
        core.sliced_requests.add(NO_SESSION, lambda: self._sending(core, changes))

    def _sending(self, core: Core, changes: Changes) -> Generator[int, None, None]:
        """Brings all lists up to date and notifies their watchers, list by list."""
        by_namespace: dict[str, dict[str, bool]] = {}
        for full, exists in changes.names.items():
            by_namespace.setdefault(full[_DOMAIN_LENGTH : full.rindex("/")], {})[full] = exists
        number = changes.number
        sessions: dict[str, set[int]] = {}
        for namespace, own in by_namespace.items():
            came = [name for name, exists in own.items() if exists]
            gone = [name for name, exists in own.items() if not exists]
            for watched in list(self._by_namespace.get(namespace, {}).values()):
                if watched.knows < number:
                    yield from _update(core, watched, number, came, gone, sessions)
        self._creations.notified(core, sessions, changes.names)
        for lists in self._by_namespace.values():
            for watched in lists.values():
                watched.knows = max(watched.knows, number)


class _Due:
    """A call that is made when two things have happened."""

    __slots__ = ("_call", "_left")

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._left = 2

    def count_down(self) -> None:
        """Notes that one of them has."""
        self._left -= 1
        if not self._left:
            self._call()


def _update(
    core: Core, watched: WatchedList, number: int, came: list[str], gone: list[str], sessions: dict[str, set[int]]
) -> Generator[int, None, None]:
    """Brings a list up to date, sends its watchers an update, and adds to `sessions` those that get a few new names."""
    new, lost = watched.apply(came, gone)
    count = len(new) + len(lost)
    merged = len(watched.names) // _MERGED_A_MICROSECOND if count > _FEW else 0
    yield int(topic_lists.cost_of_match(watched.pattern) * len(came)) + len(gone) + merged
    if count:
        watched.hash = yield from topic_lists.hash_of(watched.names)
    watched.knows = max(watched.knows, number)
    for watcher in list(watched.watchers) if count else ():
        if watcher.knows < number and watcher in watched.watchers:
            core.send(watcher.session, commands.watch_topic_update(watcher.watcher_id, new, lost, watched.hash))
            for name in new if len(new) <= _FEW else ():
                sessions.setdefault(name, set()).add(watcher.session.session_id)
            yield _UPDATE_COST + count // _SENT_A_MICROSECOND


def on_watch(core: Core, session: Session, command: CommandWatchTopicList) -> None:
    """WATCH_TOPIC_LIST: answers the names that match now, unless the client knows them by their hash, and sends changes
    from then on. A known id is watched anew."""
    if not core.config.topic_patterns:
        raise NotAllowed("Unable to create topic list watcher: watching is switched off on this broker")
    longest = core.config.topic_pattern_max_length
    if len(command.topics_pattern) > longest:
        raise NotAllowed(f"Unable to create topic list watcher: Pattern longer than maximum: {longest}")
    split_namespace(command.namespace)
    try:
        pattern = TopicPattern(command.topics_pattern)
    except UnsupportedPattern as error:
        why = f"this broker matches by RE2, the client lists topics and matches them itself ({error})"
        raise NotAllowed(f"Unable to create topic list watcher: {why}") from error
    except InvalidPattern as error:
        raise InvalidTopicName(f"Invalid topics pattern: {error}") from error
    core.sliced_requests.add(session.session_id, lambda: core.watchers.steps(core, session, command, pattern))


def on_close(core: Core, session: Session, command: CommandWatchTopicListClose) -> None:
    """WATCH_TOPIC_LIST_CLOSE: SUCCESS, also for an unknown id."""

    def close() -> Iterator[int]:
        watcher = session.watchers.get(command.watcher_id)
        if watcher is not None:
            core.watchers.remove(watcher)
        core.succeed(session, command.request_id)
        return iter(())

    if core.sliced_requests.is_waiting(session.session_id):
        core.sliced_requests.add(session.session_id, close)  # the watcher may be one of those
    else:
        close()


def is_watched(name: TopicName) -> bool:
    """Returns whether watchers may hear of a topic."""
    return name.is_persistent and not name.is_hidden
