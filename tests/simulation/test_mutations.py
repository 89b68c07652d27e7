"""Would the simulation notice? Each rule that is broken on purpose here is found within a few seeds."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spark_pulsar.broker.dispatch.base import Dispatcher
from spark_pulsar.broker.dispatch.exclusive import ExclusiveDispatcher
from spark_pulsar.broker.dispatch.shared_redelivery import RedeliveringDispatcher
from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.entities.session import Session
from spark_pulsar.broker.publishing import producers
from spark_pulsar.broker.topic_log import retention
from spark_pulsar.ledger.managed_ledgers.managed_ledger import ManagedLedger
from spark_pulsar.ledger.state import ledgers, snapshot
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.cursors.cursor import Cursor
from spark_pulsar.ledger.state.cursors.records import CursorAcked
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.storage import files
from spark_pulsar.storage.checkpoint.inventory import Inventory
from spark_pulsar.storage.journal import journal
from spark_pulsar.storage.recovery import take_over

from .comparing import Violation
from .disk import PageCacheDisk
from .history import History, run
from .mutations import Mutation, Mutations, breaks, find
from .profile import NEWEST, draw


def nothing(*_: Any) -> None:
    """Does nothing."""


def forgetful_tables() -> list[Any]:
    """Tables of a checkpoint that forgets that a ledger was sealed."""

    def values(state: Any, key: Any) -> Any:
        row = ledgers._values(state, key)
        return row and (*row[:-1], None)

    return [table._replace(values=values) if table.name == "ledgers" else table for table in snapshot.TABLES]


MUTATIONS: Mutations = {
    "receipt_before_durable": Mutation(Core, "when_durable", lambda _self, due: due()),
    "entries_are_seen_before_they_are_durable": Mutation(
        Dispatcher, "visible_through", lambda self: self.subscription.topic.ledger.last_position
    ),
    "exclusive_forgets_to_go_back": Mutation(ExclusiveDispatcher, "redeliver", nothing, seed=43),
    "redelivery_counts_are_not_kept": Mutation(Cursor, "redeliver", nothing, seed=17),
    "lazy_acks_are_never_written": Mutation(Core, "append_lazily", lambda self, record: apply(self.state, record)),
    "a_seek_is_off_by_one": Mutation(
        ManagedLedger, "previous_position", staticmethod(lambda position: Position(*position))
    ),
    "seals_are_lost_in_rows": Mutation(snapshot, "TABLES", forgetful_tables()),
}
broken = partial(breaks, MUTATIONS)


@broken(Core, "on_durable")
def durable_too_early(real: Any, self: Core, _group: int) -> None:
    """A group that is on disk counts for all that were begun."""
    real(self, self._group)


@broken(CursorAcked, "decode", seed=317)
def batch_acks_forgotten_on_replay(real: Any, body: bytes, at: int, end: int) -> CursorAcked:
    record = real(body, at, end)
    return CursorAcked(record.cursor_id, record.ranges)


@broken(Cursor, "acknowledge_batch", seed=94)
def batch_acks_replace_each_other(real: Any, self: Cursor, ledger_id: int, entry_id: int, bits: int) -> None:
    self.batch_sets.get(ledger_id, {}).pop(entry_id, None)
    real(self, ledger_id, entry_id, bits)


@broken(retention, "plan_trimming")
def trims_what_somebody_wants(real: Any, ledger: Any, _slowest: Any, *more: Any) -> Any:
    return real(ledger, None, *more)


@broken(DurableState, "first_needed_entry")
def settling_drops_one_too_many(real: Any, self: DurableState, ledger_id: int) -> int | None:
    needed = real(self, ledger_id)
    return None if needed is None else min(needed + 1, self.ledgers[ledger_id].entries)


@broken(Cursor, "acknowledge")
def mark_delete_jumps_over_a_hole(real: Any, self: Cursor, ranges: Any) -> None:
    real(self, [(ledger_id, max(0, first - 1), end) for ledger_id, first, end in ranges])


@broken(producers, "_when_holder_is_checked", seed=62)
def producers_share_a_name(
    _real: Any, core: Core, session: Session, command: Any, topic: Any, holder: Any, _busy: Any
) -> None:
    """A name is taken over while its old connection still sends."""
    del topic.producers[holder.name]
    producers._open(core, session, command, topic, may_check=False)


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_rule_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find(MUTATIONS[name], monkeypatch)


# ---- storage in files

FILE_MUTATIONS: Mutations = {
    "a_lost_row_is_not_missed": Mutation(Inventory, "difference", lambda *_: "", seed=42),
    "writes_are_not_synced": Mutation(PageCacheDisk, "write_durably", PageCacheDisk.write),
    "files_are_not_synced": Mutation(PageCacheDisk, "sync", nothing),
    "names_are_not_synced": Mutation(PageCacheDisk, "sync_directory", nothing),
    "settling_copies_nothing": Mutation(files, "plan_ledgers", nothing),
}


@breaks(FILE_MUTATIONS, PageCacheDisk, "remove")
def ledger_files_stay(real: Any, self: PageCacheDisk, path: Path) -> None:
    if path.suffix != ".ledger":
        real(self, path)


@breaks(FILE_MUTATIONS, journal.Journal, "barrier")
def the_checkpoint_is_ahead_of_the_journal(_real: Any, self: journal.Journal, reached: Any) -> None:
    """Rows are stored without waiting for the groups before them."""
    reached(self._last_group)


@breaks(FILE_MUTATIONS, PageCacheDisk, "write_durably", seed=21)
def a_failed_write_is_tried_again(real: Any, self: PageCacheDisk, fd: int, buffers: Any, offset: int) -> int:
    try:
        return int(real(self, fd, buffers, offset))
    except OSError:
        self.sync(fd)
        return offset + sum(map(len, buffers))


@pytest.mark.parametrize("name", FILE_MUTATIONS)
def test_a_broken_promise_of_the_disk_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers DUR-1, DUR-3, DUR-9
    find(FILE_MUTATIONS[name], monkeypatch, storage="files")


def without_syncing(real: Any, self: Any, *args: Any) -> None:
    """Commits and syncs no file."""
    self._disk.sync = lambda _fd: None
    try:
        real(self, *args)
    finally:
        del self._disk.sync


@pytest.mark.parametrize(("owner", "seed"), [(journal.Journal, 317), (files.FileStorage, 32)])
def test_a_hole_after_a_power_loss_without_syncing_is_found(
    owner: Any, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Full segments are not synced, or the checkpoint is ahead of what was not."""
    # covers DUR-3
    mutation = Mutation(owner, "_commit", without_syncing, seed=seed, is_wrapper=True)
    find(mutation, monkeypatch, fits=lambda profile: profile.sync != "always")


def kill_an_unsynced_life(seed: int, *, when_full: bool) -> None:
    """A life that syncs nothing is killed, one that syncs goes on, and then the power fails. `when_full`: the disk has
    no space when the second one begins, and a sync had failed before."""
    profile = draw(seed, storage="files")
    profile.sync, profile.power = "never", "lose"
    history = Steady(profile)
    world, disk = history.world, history.world.store.disk  # type: ignore[attr-defined]
    try:
        history.be_busy()
        profile.sync = "always"
        if when_full:
            disk.forget_cached()
            disk.is_full = True
        world.crash(only_process=True)
        disk.heal()
        history.be_busy()
        world.crash()
        world.crash()
        history.finish()
    finally:
        world.store.dispose()


class Steady(History):
    """A history whose producers do something for certain."""

    def be_busy(self) -> None:
        """Connects all clients, and brings entries to the disk in the end."""
        self._begin()
        for _ in range(10):
            self._publish()
            self._bustle()


SEEDS_OF_KILLS = range(1, 7)


@pytest.mark.parametrize("when_full", [False, True])
def test_what_was_not_synced_is_written_anew_before_anything_rests_on_it(
    monkeypatch: pytest.MonkeyPatch, *, when_full: bool
) -> None:
    # covers DUR-3, DUR-9, DUR-10
    for seed in SEEDS_OF_KILLS:
        kill_an_unsynced_life(seed, when_full=when_full)
    monkeypatch.setattr(take_over, "_never_synced", lambda _mark, _replay: [])
    found = []
    for seed in SEEDS_OF_KILLS:
        try:
            kill_an_unsynced_life(seed, when_full=when_full)
        except Violation:
            found.append(seed)
    assert len(found) > len(SEEDS_OF_KILLS) // 4, "a power loss after the kill takes it away, more often than not"


def test_what_a_leaver_of_a_shared_subscription_held_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs seeds in which a consumer that could take an entry does not: that is seldom."""

    # covers SH-4, SH-10
    def detach(self: RedeliveringDispatcher, consumer: Any) -> None:
        consumer.release_all()
        if not self.subscription.consumers:
            self.rewind()

    monkeypatch.setattr(RedeliveringDispatcher, "detach", detach)
    found = 0
    for seed in (1788, 2795, 3063, 3146, 4868, 4873):
        try:
            run(seed, without=NEWEST)
        except Violation:
            found += 1
    assert found
