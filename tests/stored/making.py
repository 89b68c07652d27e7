"""Fills a broker with one of everything that is stored, and packs what its data directory is then.

    python -m tests.stored.making NAME

writes NAME.tar.xz (two directories: of a broker that was killed, and of one that ended in order) and NAME.json (what
is in them) beside this file. The test opens all that are there: what an older version wrote has to open, so that none
is ever replaced. Another NAME is needed when something new is stored, or old things in another form.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Final

import pulsar

from spark_pulsar import broker_process
from spark_pulsar.storage.files import FileStorage
from tests.brokers import Broker, topic_path
from tests.conformance.transactions.transacting import Transacting, remaining
from tests.eventually import eventually
from tests.stored.facts import facts

HERE: Final = Path(__file__).parent
KINDS: Final = ("killed", "closed")
SEGMENT_BYTES: Final = 1024 * 1024
CONF: Final[dict[str, object]] = {
    "journalMaxSizeMB": 1,
    "managedLedgerMaxEntriesPerLedger": 100,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    "acknowledgmentAtBatchIndexLevelEnabled": True,
    "subscriptionExpirationTimeMinutes": 0,
    "brokerDeleteInactiveTopicsEnabled": False,
    "transactionCoordinatorEnabled": True,
}
NAMESPACE: Final = "kept/all"
YEAR_2200_MS: Final = 7_258_118_400_000
TTL_MS: Final = 1 << 42
"""Longer than this program is going to be used."""
EARLIEST = pulsar.InitialPosition.Earliest
Type = pulsar.ConsumerType


def name(local: str) -> str:
    """A topic of the namespace that the policies are of."""
    return f"persistent://{NAMESPACE}/{local}"


def fill(broker: Broker) -> None:
    """One of everything."""
    _policies(broker)
    client = broker.client()
    _subscriptions(broker, client)
    _holes(client)
    _partitions(broker, client)
    _delayed(client)
    _schemas(broker, client)
    _deduplicated(broker, client)
    _compacted(broker, client)
    _terminated(broker, client)
    _numbers_of_an_ack(broker, client)
    _transactions(broker)
    _settled(broker, client)
    client.close()


def _put(broker: Broker, method: str, path: str, body: Any = None) -> None:
    status, answer = broker.rest(method, path, body)
    assert status in (200, 204), f"{method} {path}: {status} {answer!r}"


def _policies(broker: Broker) -> None:
    _put(broker, "PUT", "/admin/v2/tenants/kept", {"allowedClusters": ["standalone"]})
    _put(broker, "PUT", f"/admin/v2/namespaces/{NAMESPACE}", {})
    of = f"/admin/v2/namespaces/{NAMESPACE}"
    _put(broker, "POST", f"{of}/retention", {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1})
    _put(broker, "POST", f"{of}/backlogQuota", {"limitSize": 1 << 40, "limitTime": -1, "policy": "producer_exception"})
    _put(broker, "POST", f"{of}/maxConsumersPerSubscription", 77)
    _put(broker, "PUT", "/admin/v2/namespaces/kept/other", {})
    _put(broker, "POST", "/admin/v2/namespaces/kept/other/messageTTL", 3600)
    _put(broker, "PUT", "/admin/v2/namespaces/kept/gone", {})
    _put(broker, "DELETE", "/admin/v2/namespaces/kept/gone")


def _subscriptions(broker: Broker, client: pulsar.Client) -> None:
    """A subscription of each type, each somewhere else; properties of the topic and of one of them."""
    topic = name("types")
    _put(broker, "PUT", topic_path(topic), {"owner": "tests", "umlaut": "ä"})
    of = topic_path(topic)
    _put(broker, "POST", f"{of}/maxProducers", 9)
    _put(broker, "POST", f"{of}/maxUnackedMessagesOnConsumer", 8888)
    _put(broker, "POST", f"{of}/retention", {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1})
    types = {"ex": Type.Exclusive, "fo": Type.Failover, "sh": Type.Shared, "ks": Type.KeyShared}
    consumers = {each: client.subscribe(topic, each, kind, initial_position=EARLIEST) for each, kind in types.items()}
    client.subscribe(topic, "unsubscribed").unsubscribe()
    _put(broker, "PUT", f"{of}/subscription/ex/properties", {"a": "1"})
    producer = client.create_producer(topic)
    for number in range(30):
        producer.send(b"%d" % number, partition_key=f"k{number % 3}", properties={"n": str(number)})
    for at, (each, consumer) in enumerate(consumers.items(), 3):
        messages = [consumer.receive(60_000) for _ in range(10 * at // 3)]
        if each in ("ex", "fo"):
            consumer.acknowledge_cumulative(messages[at])
        else:
            for message in messages[:at]:
                consumer.acknowledge(message)
        _have_acked(broker, topic, each, 30 - (at + 1 if each in ("ex", "fo") else at))


def _have_acked(broker: Broker, topic: str, subscription: str, backlog: int) -> None:
    def left() -> int:
        return int(broker.rest("GET", f"{topic_path(topic)}/stats")[1]["subscriptions"][subscription]["msgBacklog"])

    eventually(lambda: left() == backlog)


def _holes(client: pulsar.Client) -> None:
    """Single acks, parts of batches, and messages that were delivered again, confirmed by the broker."""
    topic = name("holes")
    settings: dict[str, Any] = {"initial_position": EARLIEST, "batch_index_ack_enabled": True}
    consumer = client.subscribe(topic, "s", Type.Shared, **settings, negative_ack_redelivery_delay_ms=100)
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=60_000, batching_max_messages=5
    )
    for number in range(40):
        producer.send_async(b"%d" % number, lambda result, _: None)
    producer.flush()
    messages = [consumer.receive(60_000) for _ in range(40)]
    for number in (0, 3, 10, 11, 12, 13, 14, 21, 22, 30, 31, 32, 33, 34):
        consumer.acknowledge(messages[number])
    for message in messages[15:20]:
        consumer.negative_acknowledge(message)
    for _ in range(5):
        assert consumer.receive(60_000).redelivery_count() == 1
    consumer.close()


def _partitions(broker: Broker, client: pulsar.Client) -> None:
    topic = name("parted")
    _put(broker, "PUT", f"{topic_path(topic)}/partitions", 3)
    client.subscribe(topic, "s", initial_position=EARLIEST).close()
    producer = client.create_producer(topic)
    for number in range(12):
        producer.send(b"%d" % number)


def _delayed(client: pulsar.Client) -> None:
    topic = name("delayed")
    consumer = client.subscribe(topic, "s", Type.Shared, initial_position=EARLIEST)
    producer = client.create_producer(topic)
    for number in range(6):
        producer.send(b"%d" % number, deliver_at=YEAR_2200_MS + number % 4)
    producer.send(b"now")
    consumer.acknowledge(consumer.receive(60_000))
    consumer.close()


def _schemas(broker: Broker, client: pulsar.Client) -> None:
    """Two versions, and the mark of a topic whose schemas were deleted."""
    fields = [{"name": "x", "type": "int"}, {"name": "y", "type": ["null", "string"], "default": None}]
    for topic in ("schemas", "schemas-gone"):
        client.subscribe(name(topic), "s").close()
        for count in (1, 2):
            definition = json.dumps({"type": "record", "name": "Row", "fields": fields[:count]})
            body = {"type": "AVRO", "schema": definition, "properties": {"count": str(count)}}
            _put(broker, "POST", f"/admin/v2/schemas/{NAMESPACE}/{topic}/schema", body)
    _put(broker, "DELETE", f"/admin/v2/schemas/{NAMESPACE}/schemas-gone/schema")


def _deduplicated(broker: Broker, client: pulsar.Client) -> None:
    topic = name("deduplicated")
    client.subscribe(topic, "s", initial_position=EARLIEST).close()
    _put(broker, "POST", f"{topic_path(topic)}/deduplicationEnabled", True)
    producer = client.create_producer(topic, producer_name="p")
    for sequence in (3, 4, 4, 9):
        producer.send(b"%d" % sequence, sequence_id=sequence)


def _compacted(broker: Broker, client: pulsar.Client) -> None:
    topic = name("compacted")
    client.subscribe(topic, "s", initial_position=EARLIEST).close()
    producer = client.create_producer(topic)
    for number in range(20):
        producer.send(b"%d" % number, partition_key=f"k{number % 4}")
    _put(broker, "PUT", f"{topic_path(topic)}/compaction")
    eventually(lambda: broker.rest("GET", f"{topic_path(topic)}/compaction")[1]["status"] == "SUCCESS")
    producer.send(b"after", partition_key="k0")


def _terminated(broker: Broker, client: pulsar.Client) -> None:
    topic = name("terminated")
    client.subscribe(topic, "s", initial_position=EARLIEST).close()
    client.create_producer(topic).send(b"last")
    _put(broker, "POST", f"{topic_path(topic)}/terminate")


def _numbers_of_an_ack(broker: Broker, client: pulsar.Client) -> None:
    topic = name("ack-numbers")
    client.subscribe(topic, "s", initial_position=EARLIEST).close()
    client.create_producer(topic).send(b"0")
    raw = broker.raw()
    wanted = {"topic": topic, "subscription": "s", "subType": "Exclusive", "consumer_id": 1}
    assert raw.request("SUBSCRIBE", **wanted).type == "SUCCESS"
    raw.send("FLOW", consumer_id=1, messagePermits=1)
    [message] = raw.expect_messages(1)
    ledger_id, entry_id = message.position
    of = [{"ledgerId": ledger_id, "entryId": entry_id}]
    pairs = [{"key": "seen", "value": 7}]
    assert (
        raw.request("ACK", consumer_id=1, ack_type="Cumulative", message_id=of, properties=pairs).type == "ACK_RESPONSE"
    )


def _transactions(broker: Broker) -> None:
    """A transaction that was committed, one that was aborted, and one that stays open, with acks of each kind."""
    transacting, topic = Transacting(broker), name("transactions")
    transacting.produce(topic)
    transacting.subscribe(topic, name="sh")
    transacting.subscribe(topic, "Exclusive", "ex", consumer_id=2)
    plain = [transacting.send(b"plain %d" % number) for number in range(4)]
    batch = transacting.send_batch(4)
    committed, aborted = transacting.begin(topic), transacting.begin(topic)
    still_open = transacting.begin(topic, "persistent://kept/all/missing", subscriptions={topic: "sh"}, ttl_ms=TTL_MS)
    for number, transaction in enumerate((committed, aborted, still_open, committed, aborted)):
        transacting.send(b"in %d" % number, transaction)
    transacting.ack(plain[0], committed)
    transacting.ack(plain[1], aborted)
    transacting.ack(plain[2], still_open)
    transacting.ack(batch, still_open, ack_set=remaining(4, 1), batch_size=4)
    transacting.ack(plain[1], still_open, "Cumulative", consumer_id=2)
    transacting.commit(committed)
    transacting.abort(aborted)
    transacting.raw.close()


def _settled(broker: Broker, client: pulsar.Client) -> None:
    """More than a few segments hold, so that most of it stands in files of ledgers; chunks at the end."""
    topic = name("settled")
    consumer = client.subscribe(topic, "s", Type.Shared, initial_position=EARLIEST)
    producer = client.create_producer(topic, block_if_queue_full=True)
    for number in range(350):
        producer.send_async(b"%d/" % number + b"." * 10_000, lambda result, _: None)
    producer.flush()
    for number in range(120):
        message = consumer.receive(60_000)
        if number % 10:
            consumer.acknowledge(message)
    _have_acked(broker, topic, "s", 350 - 108)
    consumer.close()
    client.subscribe(name("chunks"), "s", initial_position=EARLIEST).close()
    chunking = client.create_producer(name("chunks"), chunking_enabled=True)
    chunking.send(b"c" * 6_000_000)
    client.create_producer(topic).send(b"in the journal")


def make(root: Path) -> None:
    """The directories of `KINDS` under `root`."""
    for kind in KINDS:
        with broker_process(data_dir=root / kind, conf=CONF) as process:
            broker = Broker("ours", process.service_url, process.admin_url, process)
            try:
                fill(broker)
            finally:
                broker.close_since(0)
            if kind == "killed":
                journal = root / kind / "journal"
                eventually(
                    lambda at=journal: len(list(at.glob("0*.journal"))) == 1
                )  # else it is killed while it settles
                process.kill()


def facts_of(directory: Path, *, checkpoint: bool = False) -> dict[str, Any]:
    """Reads the facts of a directory, which opening changes; more so with a checkpoint at the end."""
    storage, state = FileStorage.open(directory, segment_bytes=SEGMENT_BYTES)
    try:
        found: dict[str, Any] = json.loads(json.dumps(facts(storage, state)))
        return found
    finally:
        storage.close(state if checkpoint else None)


def unpack(archive: Path, into: Path) -> None:
    """The directories of an archive."""
    with tarfile.open(archive) as packed:
        # Python before 3.11.4 has no filters, and takes no argument that names one.
        packed.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        packed.extractall(into)


def main(archive: str) -> None:
    """Make archive and facts."""
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        make(root / "made")
        with tarfile.open(HERE / f"{archive}.tar.xz", "x:xz", preset=9) as packed:
            for kind in KINDS:
                packed.add(root / "made" / kind, kind, filter=_is_kept)
        unpack(HERE / f"{archive}.tar.xz", root)
        found = {kind: facts_of(root / kind) for kind in KINDS}
        text = json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False)
        (HERE / f"{archive}.json").write_text(f"{text}\n")


def _is_kept(file: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if file.name.endswith("-shm") else file


if __name__ == "__main__":
    main(sys.argv[1])
