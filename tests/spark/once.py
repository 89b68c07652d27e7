"""Tools of the tests of guarantees: topics that de-duplicate, copies that run again, counts of what came out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.brokers import Broker, topic_path
from tests.spark.flows import Flows


def make_namespace(broker: Broker, namespace: str) -> None:
    """Makes a namespace that de-duplicates."""
    path = f"/admin/v2/namespaces/{namespace}"
    assert broker.rest("PUT", path, {})[0] in (204, 409)
    assert broker.rest("POST", f"{path}/deduplication", True)[0] == 204


def new_topic(flows: Flows, namespace: str, name: str = "sink", partitions: int = 0) -> str:
    """A topic that nobody used before, in a namespace that de-duplicates."""
    make_namespace(flows.broker, namespace)
    topic = flows.broker.topic(name).replace("public/default", namespace)
    if partitions:
        assert flows.broker.rest("PUT", f"{topic_path(topic)}/partitions", partitions)[0] == 204
    return topic


def begin(flows: Flows, frame: DataFrame, checkpoint: str, topic: str | None, options: Mapping[str, Any]) -> Any:
    """Starts to write all that there is as a stream; `topic` is None for rows that name theirs."""
    return flows.start(
        _writer(flows, frame, topic, options).option("checkpointLocation", checkpoint).trigger(availableNow=True)
    )


def write_all(flows: Flows, frame: DataFrame, checkpoint: str, topic: str | None, options: Mapping[str, Any]) -> None:
    """Writes all that there is as a stream, in as many runs as this Spark needs (SPARK-2)."""
    flows.run(_writer(flows, frame, topic, options), checkpoint)


def _writer(flows: Flows, frame: DataFrame, topic: str | None, options: Mapping[str, Any]) -> Any:
    writer = frame.writeStream.format("pulsar").option("service.url", flows.broker.service_url)
    writer = writer if topic is None else writer.option("topic", topic)
    for name, value in options.items():
        writer = writer.option(name, value)
    return writer


def in_foreach_batch(
    flows: Flows, frame: DataFrame, checkpoint: str, topic: str, options: Mapping[str, Any]
) -> Callable[..., None]:
    """Returns a function that writes all there is inside foreachBatch, once for each name of a producer given."""

    def run(*names: str) -> None:
        def write(batch: DataFrame, _: int) -> None:
            for name in names:
                flows.write(batch, topic, **options, **({"producerName": name} if name else {}))

        flows.run(frame.writeStream.foreachBatch(write), checkpoint)

    return run


def uncommit(checkpoint: str) -> int:
    """Undoes Spark's commit of the last micro-batch, as if the driver had been lost before it; its number."""
    last = max(int(file.name) for file in (Path(checkpoint) / "commits").glob("[0-9]*"))
    for name in (f"{last}", f".{last}.crc"):
        (Path(checkpoint) / "commits" / name).unlink(missing_ok=True)
    return last


def lose_last(checkpoint: str) -> int:
    """Removes what a checkpoint knows of the last micro-batch, as after a power cut; its number."""
    last = max(int(file.name) for file in (Path(checkpoint) / "offsets").glob("[0-9]*"))
    for folder in ("commits", "offsets"):
        for name in (f"{last}", f".{last}.crc"):
            (Path(checkpoint) / folder / name).unlink(missing_ok=True)
    return last


def counted(flows: Flows, topic: str) -> Counter[str]:
    """How often each value is there for a reader."""
    rows = flows.batch(topic).groupBy(F.expr("string(value) AS value")).count().collect()
    return Counter({row["value"]: row["count"] for row in rows})
