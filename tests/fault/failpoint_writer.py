"""A process that writes to a data directory until it reaches a failpoint: `python -m … DIR START FAILPOINT OCCURRENCE`.

It does everything a broker does to a disk: two topics, one kept and one consumed and trimmed, ledgers that roll,
checkpoints, segments that fill. After each durable submit one line with its number goes to stdout. Without a failpoint
(an empty name) it closes in order after some submits and prints `steps …`: the steps that it came by.
"""

from __future__ import annotations

import os
import sys
import threading

from spark_pulsar.ledger.managed_ledgers.trimming import plan_trimming
from spark_pulsar.ledger.records import Record
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.cursors.records import CursorAcked, CursorCreated, CursorMarkDeleted
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.state.ledgers import LedgersTrimmed
from spark_pulsar.ledger.state.topics import TopicCreated
from spark_pulsar.model.policies.effective_policies import RetentionPolicy
from spark_pulsar.storage.files import FileStorage
from tests.entry_runs import run_of
from tests.fault.failpoints import FailpointDisk

KEPT, QUEUE = "persistent://public/default/kept", "persistent://public/default/queue"
SUBSCRIPTION = "sub"
SEGMENT_BYTES = 64 * 1024
ENTRIES_PER_LEDGER = 40
SUBMITS = 900
CHECKPOINT_EVERY = 33
CONSUME_EVERY = 70
_IN_FLIGHT = 4


def entry_of(number: int) -> bytes:
    """The entry that submit `number` appends to both topics."""
    return b"%d/" % number + b"e" * (500 + number % 1500)


def records_of(state: DurableState, number: int) -> list[Record]:
    """One submit: an entry for each topic; an ack in the kept one; now and then the other is consumed and trimmed."""
    kept, queue = state.topics_by_name[KEPT], state.topics_by_name[QUEUE]
    records: list[Record] = []
    for topic in (kept, queue):
        info = topic.ledger.open_ledger
        assert info is not None, "opened at the start, and again when full"
        place = (info.ledger_id, info.entries)
        records.append(EntriesAppended(run_of(*place, [entry_of(number)])))
        cursor = topic.cursors[SUBSCRIPTION]
        if topic is queue:
            if number % CONSUME_EVERY == 0:
                records.append(CursorMarkDeleted(cursor.cursor_id, *place))
        elif number % 3:
            records.append(CursorAcked(cursor.cursor_id, [(*place, place[1] + 1)]))
    return records


class Load:
    """One life of the process."""

    def __init__(self, data_dir: str, failpoint: str, occurrence: int) -> None:
        self._failpoint = failpoint
        self._occurrence = occurrence
        self.steps: dict[str, int] = {}
        self._slots = threading.Semaphore(_IN_FLIGHT)
        self._storage, self._state = FileStorage.open(
            data_dir, segment_bytes=SEGMENT_BYTES, disk=FailpointDisk(self._at)
        )

    def _at(self, name: str) -> None:
        self.steps[name] = self.steps.get(name, 0) + 1
        if name == self._failpoint and self.steps[name] == self._occurrence:
            os.kill(os.getpid(), 9)

    def _submit(self, *records: Record) -> None:
        for record in records:
            apply(self._state, record)
        self._storage.submit(records)

    def _make_topics(self) -> None:
        state = self._state
        for name in (KEPT, QUEUE):
            if name not in state.topics_by_name:
                topic_id = state.next_topic_id
                created = TopicCreated(topic_id, name, 1, {})
                self._submit(created, CursorCreated(state.next_cursor_id, topic_id, SUBSCRIPTION, -1, -1, 1, {}))
            self._submit(*state.records_to_open_ledger(state.topics_by_name[name].topic_id, 2))

    def _roll_and_trim(self) -> None:
        state = self._state
        for name in (KEPT, QUEUE):
            topic = state.topics_by_name[name]
            info = topic.ledger.open_ledger
            if info is not None and info.entries >= ENTRIES_PER_LEDGER:
                self._submit(*state.records_to_open_ledger(topic.topic_id, 2))
        queue = state.topics_by_name[QUEUE]
        gone = plan_trimming(queue.ledger, queue.slowest_mark_delete(), RetentionPolicy(), 2).gone
        if gone:
            self._submit(LedgersTrimmed(queue.topic_id, gone))

    def _durable(self, number: int) -> None:
        os.write(1, b"%d\n" % number)
        self._slots.release()

    def run(self, start: int) -> None:
        """Go on from submit number `start`, and close in order if nothing happens before."""
        self._make_topics()
        for number in range(start, start + SUBMITS):
            self._slots.acquire()
            self._roll_and_trim()
            records = records_of(self._state, number)
            for record in records:
                apply(self._state, record)
            self._storage.submit(records, lambda _, number=number: self._durable(number))  # type: ignore[misc]
            # Not when the storage wants one: under load it would have few of them.
            if number % CHECKPOINT_EVERY == 0:
                self._storage.checkpoint(self._state)
        self._storage.close(self._state)


def main(data_dir: str, start: int, failpoint: str, occurrence: int) -> None:
    """See the module."""
    load = Load(data_dir, failpoint, occurrence)
    load.run(start)
    os.write(1, f"steps {' '.join(load.steps)}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
