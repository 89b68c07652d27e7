"""Columnar SENDs: SENDs of many producers at once, by the rules for runs, by column instead of by run.

A thousand producers that send in turn make runs of one entry, and an object per run would be an object per entry.
Columnar SENDs are one event, one record and one write of receipts for all of them, and change their counters together.
Where a rule requires more than that, they are taken one by one.
"""

from __future__ import annotations

from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from spark_pulsar.broker.topic_log import rollover
from spark_pulsar.broker.turn.counter_columns import (
    BYTES_IN,
    CHECK_AT_BYTES,
    LAST_ADD_CONFIRMED_ENTRY_ID,
    LAST_ADD_CONFIRMED_LEDGER_ID,
    LAST_GROUP,
    LAST_PUBLISHED_MS,
    MESSAGES_IN,
    SUBSCRIPTIONS,
    TOPIC_BYTES_IN,
    TOPIC_MESSAGES_IN,
    TOPIC_ROW,
)
from spark_pulsar.broker.turn.effects import SendColumnarReceipts
from spark_pulsar.broker.turn.events import SendsReceived
from spark_pulsar.ledger.entries import EntryColumns
from spark_pulsar.ledger.managed_ledgers.ledger import LEDGER_ID
from spark_pulsar.ledger.state import columns
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.model.column_store import column_of
from spark_pulsar.wire.entries.delivery_times import delays_in
from spark_pulsar.wire.sends.send_runs import SendRun

from . import deduplication, pending_publishes, storing_entries

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.producer import Producer
    from spark_pulsar.broker.entities.session import Session
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.broker.turn.events import ColumnarSendsReceived
    from spark_pulsar.ledger.state.columns import Column
    from spark_pulsar.wire.sends.send_runs import ColumnarSends


def on_columnar_sends(core: Core, session: Session, event: ColumnarSendsReceived) -> None:
    """Consecutive plain SENDs of several producers of one session."""
    columnar_sends = event.columnar_sends
    producer_rows = np.fromiter(
        map(session.producer_rows.get, columnar_sends.producer_ids, repeat(-1)), np.int64, len(columnar_sends)
    )
    if producer_rows.min() < 0 or _is_particular(core, session, columnar_sends):
        _store_each(core, session, columnar_sends)
        return
    if not core.silent_producers.is_watching:
        _store(core, session, producer_rows, columnar_sends)
        return
    all_new, record = deduplication.reached_in_columns(
        core, _producers(session, columnar_sends), columnar_sends.sequence_ids, columnar_sends.message_counts
    )
    if not all_new:
        _store_each(core, session, columnar_sends)
        return
    _store(core, session, producer_rows, columnar_sends)
    if record is not None:
        core.append(record)


def _producers(session: Session, columnar_sends: ColumnarSends) -> list[Producer]:
    return list(map(session.producers.__getitem__, columnar_sends.producer_ids))


def _is_particular(core: Core, session: Session, columnar_sends: ColumnarSends) -> bool:
    """Returns whether some of the entries require more than storing: their topics are not persistent, limited by a rate
    or a size, or for encrypted messages alone, or they are to be delivered later."""
    encrypted, limits = core.encryption.topics, core.message_sizes.limits
    if core.non_persistent.by_name or core.publish_limits.topics or encrypted or limits:
        for topic in {producer.topic for producer in _producers(session, columnar_sends)}:
            if topic.non_persistent is not None or topic.publish_limit is not None:
                return True
            if topic in encrypted or topic in limits:
                return True
    return 1 in columnar_sends.message_counts and bool(
        delays_in(columnar_sends.buffer, columnar_sends.starts, columnar_sends.ends)
    )


def _store_each(core: Core, session: Session, columnar_sends: ColumnarSends) -> None:
    """Takes columnar SENDs one by one, as runs of one entry."""
    columns = (
        columnar_sends.producer_ids,
        columnar_sends.sequence_ids,
        columnar_sends.message_counts,
        columnar_sends.starts,
        columnar_sends.ends,
    )
    for producer_id, sequence_id, messages, start, end in zip(*columns, strict=True):
        if not session.open:  # one of them was for a producer that is not open
            return
        run = SendRun(producer_id, columnar_sends.buffer, sequence_id, messages, start, end)
        storing_entries.on_sends(core, session, SendsReceived(session.session_id, run))


def _store(core: Core, session: Session, producer_rows: Column, columnar_sends: ColumnarSends) -> None:
    """Appends each entry to its topic's ledger: one record for all."""
    rows = core.producer_counters.matrix()[:, TOPIC_ROW][producer_rows]
    assert rows.min() >= 0, "their topics are persistent"
    _open_ledgers(core, rows)
    ledger_ids, entry_ids = columns.next_ids(core.state.open_ledgers, rows)
    counts = None if sum(columnar_sends.message_counts) == len(columnar_sends) else columnar_sends.message_counts
    entries = EntryColumns(
        columnar_sends.buffer,
        column_of(ledger_ids),
        column_of(entry_ids),
        columnar_sends.starts,
        columnar_sends.ends,
        counts,
        column_of(rows),
    )
    core.append(EntriesAppended(entries))
    sizes = entries.sizes()
    to_check = _count(core, producer_rows, rows, entries, sizes, np.asarray(columnar_sends.message_counts, np.int64))
    size_bytes = int(sizes.sum())
    departures = core.topic_counters.departures
    core.when_durable(partial(_stored, core, session, columnar_sends, entries, size_bytes, departures))
    pending_publishes.note_pending(core, session, len(columnar_sends), size_bytes)
    for index in to_check:
        core.monitors.appended(_topic_in(core, int(rows[index])), entries.run(index))


def _count(
    core: Core, producer_rows: Column, rows: Column, entries: EntryColumns, sizes: Column, messages: Column
) -> list[int]:
    """Counts the entries; returns the indices of those whose topics the monitors check."""
    producers, numbers = core.producer_counters.matrix(), core.topic_counters.matrix()
    np.add.at(producers[:, MESSAGES_IN], producer_rows, messages)
    np.add.at(producers[:, BYTES_IN], producer_rows, sizes)
    producers[:, LAST_GROUP][producer_rows] = core.group_of_now
    np.add.at(numbers[:, TOPIC_MESSAGES_IN], rows, messages)
    np.add.at(numbers[:, TOPIC_BYTES_IN], rows, sizes)
    numbers[:, LAST_PUBLISHED_MS][rows] = core.wall_ms
    if numbers[:, SUBSCRIPTIONS][rows].any():  # else no consumer reads at a tail
        core.cache.insert_columns(entries)
    is_due: list[int] = np.flatnonzero(numbers[:, TOPIC_BYTES_IN][rows] >= numbers[:, CHECK_AT_BYTES][rows]).tolist()
    return is_due


def _open_ledgers(core: Core, rows: Column) -> None:
    """Opens ledgers for the topics of these rows that have none, or a full one (ML-1, ML-2)."""
    for row in columns.must_roll(core.state.open_ledgers, rows, core.wall_ms, core.roll_limits).tolist():
        rollover.open_ledger(core, _topic_in(core, row))


def _topic_in(core: Core, row: int) -> Topic:
    topic = core.topic_counters.owners[row]
    assert topic is not None, "it has a producer"
    return topic


def _stored(
    core: Core,
    session: Session,
    columnar_sends: ColumnarSends,
    entries: EntryColumns,
    size_bytes: int,
    departures: int,
) -> None:
    """Lets readers see the entries of columnar SENDs that are on disk, and sends their receipts."""
    _confirm(core, entries, are_there=departures == core.topic_counters.departures)
    if session.open:
        core.effects.append(
            SendColumnarReceipts(
                session.session_id,
                columnar_sends.producer_ids,
                entries.ledger_ids,
                entries.entry_ids,
                columnar_sends.sequence_ids,
            )
        )
    pending_publishes.settle_pending(core, session, len(entries), size_bytes)


def _confirm(core: Core, entries: EntryColumns, *, are_there: bool) -> None:
    """Lets readers have these entries. `are_there`: no topic was deleted meanwhile."""
    rows, ledger_ids, entry_ids = (
        np.asarray(entries.rows),
        np.asarray(entries.ledger_ids),
        np.asarray(entries.entry_ids),
    )
    is_open = core.state.open_ledgers.matrix()[:, LEDGER_ID][rows] == ledger_ids
    if not is_open.all():  # the ledger was followed by another one meanwhile, or is gone
        for index in np.flatnonzero(~is_open).tolist():
            topic = _topic_in(core, int(rows[index])) if are_there else _topic_of(core, entries.ledger_ids[index])
            if topic is not None:
                topic.confirm_entries(core, entries.run(index))
        rows, ledger_ids, entry_ids = rows[is_open], ledger_ids[is_open], entry_ids[is_open]
    numbers = core.topic_counters.matrix()
    numbers[:, LAST_ADD_CONFIRMED_LEDGER_ID][rows] = ledger_ids
    numbers[:, LAST_ADD_CONFIRMED_ENTRY_ID][rows] = entry_ids
    if numbers[:, SUBSCRIPTIONS][rows].any():
        for row in dict.fromkeys(rows.tolist()):
            _topic_in(core, row).wake_subscriptions(core)


def _topic_of(core: Core, ledger_id: int) -> Topic | None:
    info = core.state.ledgers.get(ledger_id)
    return None if info is None else core.topics.get(core.state.topics[info.topic_id].name)
