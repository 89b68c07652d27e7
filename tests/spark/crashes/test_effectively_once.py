"""A topic is copied effectively once while workers, the driver and the broker are killed, entries are refused, and the
checkpoint loses its newest files: each row comes out one time, or, of lost files alone, an error.

`SPARK_CRASHES=100 pytest tests/spark/crashes -s` makes so many copies; `CRASH_SEED` repeats the choices of a run, and
`CRASH_RUN=17` makes one copy. With `GUARANTEE=transactional` a reader also sees to it that micro-batches show whole.
With `GUARANTEE=at-least-once` rows may come twice, and are counted, but none is missing.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.options.table import BATCH_READ, BATCH_WRITE
from spark_pulsar.connector.planning.batch_read import plan_batch
from spark_pulsar.connector.reading.projection import Projection
from spark_pulsar.connector.reading.range_reading import read_range
from spark_pulsar.connector.writing.task_writing import publish
from tests.brokers import Broker, topic_path
from tests.eventually import eventually
from tests.spark.crashes.application import Application
from tests.spark.crashes.checkpoints import LostFiles
from tests.spark.crashes.refusing import REFUSALS, Refusals
from tests.spark.crashes.watching import Watcher

RUNS = int(os.environ.get("SPARK_CRASHES", "1"))
SEED = os.environ.get("CRASH_SEED") or "20261123"
GUARANTEE = os.environ.get("GUARANTEE") or "effectively-once"
ONLY = os.environ.get("CRASH_RUN")
NAMESPACE = "public/crashes"
IS_TRANSACTIONAL = GUARANTEE == "transactional"
DRIVER_EACH = 3 if IS_TRANSACTIONAL else 5
"""The driver is killed in one copy of so many."""
FILES_EACH = 2
"""Files of the checkpoint are lost in one copy of so many."""
KEYS = 13
MOST_STARTS = 12
REFUSED = "DeliveryGuaranteeError"
"""Error that is right when a checkpoint has lost files: a number of a micro-batch comes to stand for other rows."""
REFUSED_BY_SPARK = "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY"
"""Spark's own error about a checkpoint that has a commit and no offset of the first micro-batch."""

ACCEPTED = (REFUSED_BY_SPARK,) if GUARANTEE == "at-least-once" else (REFUSED, REFUSED_BY_SPARK)


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """A Spark application that lives until it is killed, and then comes back."""
    one = Application(tmp_path_factory.mktemp("application"))
    yield one
    one.stop()


class Copy:
    """One copy, with the choices of its seed."""

    def __init__(self, broker: Broker, application: Application, number: int, directory: Path) -> None:
        self.choices = random.Random(f"{SEED}-{number}")
        self.broker = broker
        self.application = application
        self.rows = self.choices.randrange(6_000, 18_000)
        self.source = self._topic("source", self.choices.choice([1, 3]))
        self.sink = self._topic("sink", self.choices.choice([1, 4]))
        common = {"service.url": broker.service_url, "operationTimeoutMs": "120000"}
        self.order = {
            "read": common
            | {
                "topic": self.source,
                "startingOffsets": "earliest",
                "maxMessagesPerTrigger": str(self.rows // self.choices.randrange(3, 9)),
                "smallBatchMaxMessages": self.choices.choice(["0", "5000"]),
            },
            "write": common
            | {
                "topic": self.sink,
                "deliveryGuarantee": GUARANTEE,
                "batchingMaxMessages": self.choices.choice(["1", "2", "10"]),
                "sendTimeoutMs": "120000",
            },
            "checkpoint": str(directory / f"checkpoint-{number}"),
            "columns": ["value", "string(__key) AS __key"],
        }
        victims = ["worker"] if broker.kind == "apache-pulsar" else ["worker", "broker"]
        self.victims = [self.choices.choice(victims) for _ in range(self.choices.randrange(1, 4))]
        if number % DRIVER_EACH == 0:
            self.victims.insert(self.choices.randrange(len(self.victims) + 1), "driver")
        self._add_events(number)
        self.twice = 0
        self.killed: list[str] = []
        """Everything that happened, in order."""
        self.lost: LostFiles | None = None
        self.refusal = ""
        """Error with which the query has ended for good, after files were lost."""
        self.watcher = Watcher(broker.service_url, self.sink) if IS_TRANSACTIONAL else None

    def _add_events(self, number: int) -> None:
        """Adds refusals and lost files to what is killed, by choices of their own: those of a seed stay the same."""
        choices = self.more = random.Random(f"{SEED}-{number}-more")
        events = [choices.choice(REFUSALS) for _ in range(choices.choice([0, 1, 1, 2]))]
        if number == 0:  # the short form: what costs no start of the query
            events = ["size of a batch", "bit"]
        for event in events:
            self.victims.insert(choices.randrange(len(self.victims) + 1), event)
        if number % FILES_EACH == FILES_EACH - 1:
            self.victims.append("files")
        self.refusals = Refusals(self.broker, self.sink)
        if "bit" in events:
            self.order["write"]["service.url"] = self.refusals.url
        if "delay" in events:
            self.order["columns"].append("CASE WHEN int(string(value)) % 50 = 0 THEN 60000L END AS __deliverAfterMs")

    def _topic(self, name: str, partitions: int) -> str:
        topic = self.broker.topic(name).replace("public/default", NAMESPACE)
        if partitions > 1:
            assert self.broker.rest("PUT", f"{topic_path(topic)}/partitions", partitions)[0] == 204
        return topic

    def fill(self) -> None:
        """Writes the rows of the source: numbers, most of them with keys."""
        self._fill(range(self.rows))

    def _fill(self, numbers: range) -> None:
        keys = [None if number % 5 == 0 else f"k{number % KEYS}" for number in numbers]
        batch = pa.RecordBatch.from_pydict({"value": [str(number) for number in numbers], "__key": keys})
        options = parse_options({"service.url": self.broker.service_url, "topic": self.source}).for_write(BATCH_WRITE)
        with PulsarClient(ClientConfig(self.broker.service_url)) as client:
            publish(client, options, iter([batch]))

    def run(self) -> None:
        """Copies, killing on the way, until the copy is done."""
        if self.watcher is not None:
            self.watcher.start()
        try:
            self._run()
        finally:
            self.refusals.close()
            if self.watcher is not None:
                self.watcher.stop()

    def _run(self) -> None:
        for start in range(MOST_STARTS):
            self.application.begin(self.order)
            while self.victims and self._await_moment():
                self._happen(self.victims.pop(0))
            answer = self.application.answer()
            if answer == "@done":
                self.refusal = ""
                return
            self.refusals.end()
            if self.lost is not None:
                self.lost.remove_halves()
                if answer is not None and any(error in answer for error in ACCEPTED):
                    if self.refusal:  # it stays so
                        return
                    self.refusal = answer
            assert answer is not None, "the copy hangs"
            assert answer == "@gone" or start < MOST_STARTS - 1, answer
        raise AssertionError("the copy is never done")

    def _await_moment(self) -> bool:
        """Waits until some more rows are on the sink; False when the copy is over before."""
        more = self.choices.randrange(self.rows // (len(self.victims) + 1))
        if self.watcher is not None and self.choices.random() < 0.5:
            watcher, seen = self.watcher, self.watcher.rows  # right after a commit, which Spark does not know of yet
            eventually(lambda: self.application.has_answered or watcher.rows > seen, 300, 0.001)
            return not self.application.has_answered
        before = self._arrived()
        eventually(lambda: self.application.has_answered or self._arrived() >= before + more, 300, 0.005)
        if self.victims[0] == "files":
            commits = Path(self.order["checkpoint"]) / "commits"
            eventually(lambda: self.application.has_answered or any(commits.glob("[0-9]*")), 300, 0.002)
        return not self.application.has_answered

    def _arrived(self) -> int:
        """Messages that the sink has got since the broker has loaded it."""
        for kind in ("partitioned-stats", "stats"):
            status, answer = self.broker.rest("GET", f"{topic_path(self.sink)}/{kind}")
            if status == 200:
                return int(answer["msgInCounter"])
        return 0

    def _happen(self, event: str) -> None:
        if event in REFUSALS:
            self.refusals.begin(event)
            if event != "bit":
                self.victims.insert(0, "end of refusals")
        elif event == "end of refusals":
            self.refusals.end()
        elif event == "files":
            self._lose_files()
        else:
            self._kill(event)
            return
        self.killed.append(event)

    def _lose_files(self) -> None:
        self.application.kill()
        self.lost = LostFiles(Path(self.order["checkpoint"]), self.more)
        more = self.more.randrange(1, self.rows // 4)
        self._fill(range(self.rows, self.rows + more))
        self.rows += more
        self.killed += self.lost.names
        self.application.begin(self.order)

    def _kill(self, victim: str) -> None:
        if victim == "worker":
            workers = self.application.workers()
            if not workers:
                return
            try:
                self.choices.choice(workers).kill()
            except psutil.NoSuchProcess:
                return
        elif victim == "broker":
            self.broker.kill()
            self.broker.restart()
        else:
            self.application.kill()
        self.killed.append(victim)
        if victim == "driver":
            self.application.begin(self.order)

    def check(self) -> None:
        """Counts the rows of the sink, and follows each key."""
        options = parse_options({"service.url": self.broker.service_url, "topic": self.sink}).for_read(BATCH_READ)
        found: Counter[int] = Counter()
        of_keys: dict[str, list[int]] = {}
        with PulsarClient(ClientConfig(self.broker.service_url)) as client:
            for work in plan_batch(client, options):
                for batch in read_range(client, options, work, Projection(("value", "__key"))):
                    numbers = [int(value) for value in batch.column("value").to_pylist()]
                    found.update(numbers)
                    for number, key in zip(numbers, batch.column("__key").to_pylist(), strict=True):
                        if key is not None:
                            of_keys.setdefault(f"{work.topic} {key.decode()}", []).append(number)
        self.twice = twice = sum(count - 1 for count in found.values())
        missing = self.rows - len(found)
        if GUARANTEE == "at-least-once":
            assert missing == 0, f"{missing} missing of {self.rows}"
            return
        if self.refusal:
            # What is planned anew may be stored before it is noticed; in a transaction it is never seen.
            assert not IS_TRANSACTIONAL or twice == 0, f"{twice} rows too many, beside an error"
            return
        assert (twice, missing) == (0, 0), f"{twice} rows too many and {missing} missing of {self.rows}"
        assert len(of_keys) == KEYS
        assert all(numbers == sorted(numbers) for numbers in of_keys.values()), "out of order"
        if self.watcher is not None:
            self.watcher.check(self.rows)

    def reason(self) -> str:
        """The error of `refusal`, from its name on."""
        name = next(error for error in ACCEPTED if error in self.refusal)
        return self.refusal[self.refusal.index(name) :][:300]

    def delete_topics(self) -> None:
        """Deletes the copy's topics: each turn of a broker under test checks all that it has."""
        for topic in (self.source, self.sink):
            for kind in ("/partitions", ""):
                self.broker.rest("DELETE", f"{topic_path(topic)}{kind}?force=true")


def prepare(broker: Broker) -> None:
    """Makes a namespace that de-duplicates, and keeps everything: a restart ends its ledgers."""
    path = f"/admin/v2/namespaces/{NAMESPACE}"
    assert broker.rest("PUT", path, {})[0] in (204, 409)
    assert broker.rest("POST", f"{path}/deduplication", True)[0] == 204
    keep = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    assert broker.rest("POST", f"{path}/retention", keep)[0] == 204


@pytest.mark.long
def test_each_row_comes_out_one_time_whatever_is_killed(
    own_broker: Broker, application: Application, tmp_path: Path
) -> None:
    # covers ONCE-8, TXN-8
    prepare(own_broker)
    kills: Counter[str] = Counter()
    failures = []
    for number in range(RUNS) if ONLY is None else [int(ONLY)]:
        copy = Copy(own_broker, application, number, tmp_path)
        copy.fill()
        try:
            copy.run()
        except AssertionError as error:
            failures.append(f"copy {number} of seed {SEED}: {', '.join(copy.killed)}: {error}")
            print(failures[-1], flush=True)
            application.stop()
            continue
        kills.update(copy.killed)
        told = f"copy {number} of seed {SEED}: {copy.rows} rows; {', '.join(copy.killed) or 'nothing happened'}"
        try:
            copy.check()
            told += f"; {copy.twice} rows twice" if copy.twice else ""
            told += f"; ended with an error: {copy.reason()}" if copy.refusal else ""
        except AssertionError as error:
            failures.append(f"{told}: {error}")
            told = f"{told}: {error}"
        print(told, flush=True)
        copy.delete_topics()
    print(f"{len(failures)} copies went wrong; what happened: {dict(kills)}")
    assert not failures, "\n".join(failures)
    assert kills
