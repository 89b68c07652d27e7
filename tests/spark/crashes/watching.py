"""A reader beside a copy, which sees to it that a transaction shows all its rows at once."""

from __future__ import annotations

import threading
from collections import Counter

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.connector.effectively_once.checked_sequence_ids import place_of
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.positions.ids import MessageId
from spark_pulsar.wire.entries.entry_bytes import parse_entry

PAUSE_S = 0.002


class Watcher:
    """Reads all partitions of a topic again and again, each pass up to the ends that are asked for at its begin.

    What is committed before a pass begins is seen in it. So rows of one transaction are seen in one pass, or in two
    that follow each other, when the commit came while the ends were asked for.
    """

    def __init__(self, service_url: str, topic: str) -> None:
        self._config = ClientConfig(service_url)
        self._topic = topic
        self._positions: dict[str, MessageId] = {}
        self.passes = 0
        """Passes that are over."""
        self._found: dict[int, Counter[int]] = {}
        self._stopping = threading.Event()
        self._failure: Exception | None = None
        self._refusal: PulsarError | None = None
        self.rows = 0
        """Rows that were seen."""
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def __repr__(self) -> str:
        """How far it is, and what was in its way last."""
        return (
            f"{self.rows} rows in {self.passes} passes, up to {self._positions}; {self._refusal!r}, {self._failure!r}"
        )

    def start(self) -> None:
        """Begins to read."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it after one more pass, which sees everything."""
        self._stopping.set()
        self._thread.join(120)
        assert not self._thread.is_alive(), "the reader hangs"
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with PulsarClient(self._config) as client:
                while True:
                    is_last = self._stopping.is_set()
                    try:
                        self._read_all(client)
                    except PulsarError as error:  # a broker that is killed: the pass goes on where it was
                        is_last, self._refusal = False, error
                    else:
                        self.passes += 1
                    if is_last:
                        return
                    self._stopping.wait(PAUSE_S)
        except Exception as error:  # noqa: BLE001 it is raised where the test waits
            self._failure = error

    def _read_all(self, client: PulsarClient) -> None:
        partitions = client.partitions_of(self._topic, create=True)
        for partition, end in client.end_positions(partitions).items():
            start = self._positions.get(partition, MessageId(-1, -1))
            if end.ledger_id < 0 or end.position <= start.position:
                continue
            with client.fetch(partition, start, end, is_shared=True) as fetch:
                for block in fetch:
                    for at, until in zip(block.starts, block.ends, strict=True):
                        entry = parse_entry(block.buffer, at, until)
                        transaction = place_of(entry.metadata.sequence_id).number
                        self._found.setdefault(transaction, Counter())[self.passes] += entry.message_count
                        self.rows += entry.message_count
                    self._positions[partition] = fetch.position
            self._positions[partition] = end

    def check(self, rows: int) -> None:
        """Compares with what there is now: nothing that was seen has gone, and no transaction was seen in part."""
        assert self.rows == rows, f"the reader saw {self.rows} rows of {rows}"
        partial = {one: dict(passes) for one, passes in self._found.items() if max(passes) - min(passes) > 1}
        assert not partial, f"transactions that were seen in part (rows by pass): {partial}"
