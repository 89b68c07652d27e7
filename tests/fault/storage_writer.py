"""A process that writes to a data directory as fast as it can and says what is durable: `python -m … DIR SEED`.

After each durable submit one line with its number goes to stdout, unbuffered. Every submit appends one numbered entry
and acks one, so that a reader can tell exactly which submits a recovered state holds.
"""

from __future__ import annotations

import os
import sys
import threading

from spark_pulsar.ledger.records import Record
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.cursors.records import CursorAcked, CursorCreated
from spark_pulsar.ledger.state.topics import TopicCreated
from spark_pulsar.storage.files import FileStorage
from tests.entry_runs import run_of

TOPIC = "persistent://public/default/crash"
_IN_FLIGHT = 8


def main(data_dir: str, start: int) -> None:
    """Go on from submit number `start` until killed."""
    storage, state = FileStorage.open(data_dir, segment_bytes=256 * 1024)

    def submit(*records: Record) -> None:
        for record in records:
            apply(state, record)
        storage.submit(records)

    if TOPIC not in state.topics_by_name:
        submit(TopicCreated(state.next_topic_id, TOPIC, 1, {}))
        submit(CursorCreated(state.next_cursor_id, state.topics_by_name[TOPIC].topic_id, "sub", -1, -1, 1, {}))
    topic = state.topics_by_name[TOPIC]
    cursor = topic.cursors["sub"]
    submit(*state.records_to_open_ledger(topic.topic_id, 2))
    slots = threading.Semaphore(_IN_FLIGHT)

    def durable(number: int) -> None:
        os.write(1, b"%d\n" % number)
        slots.release()

    number = start
    while True:
        slots.acquire()
        info = topic.ledger.current
        assert info is not None
        if info.entries >= 200:
            submit(*state.records_to_open_ledger(topic.topic_id, 3))
            info = topic.ledger.current
            assert info is not None
        records: list[Record] = [
            EntriesAppended(run_of(info.ledger_id, info.entries, [b"%d/" % number + b"c" * (number % 3000)])),
            CursorAcked(cursor.cursor_id, [(info.ledger_id, info.entries, info.entries + 1)] if number % 3 else []),
        ]
        for record in records:
            apply(state, record)
        storage.submit(records, lambda _, number=number: durable(number))  # type: ignore[misc]
        if storage.needs_checkpoint():
            storage.checkpoint(state)
        number += 1


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
