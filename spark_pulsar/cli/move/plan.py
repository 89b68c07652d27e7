"""The plan of a move: the places, and all that the target cannot hold, known before anything is copied (MOVE-6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spark_pulsar.cli.move.places import Namespace, Topic, partitions_of, topic_path
from spark_pulsar.cli.move.sides import Side
from spark_pulsar.model.names import TopicName

_CONFIGURATION = "/admin/v2/brokers/configuration/runtime"
_BATCH_INDEX = "acknowledgmentAtBatchIndexLevelEnabled"
_MESSAGE_SIZE = "maxMessageSize"


@dataclass(frozen=True)
class Plan:
    """Places to move, the reasons why they cannot be, and what is not as in the source afterwards."""

    places: list[Namespace]
    refusals: list[str]
    notes: list[str]

    @property
    def entries(self) -> int:
        """Number of entries to copy."""
        return sum(partition.entries for _, partition in partitions_of(self.places))

    def rows(self) -> list[dict[str, Any]]:
        """Returns a row for each topic."""
        return [_row(topic) for namespace in self.places for topic in namespace.topics]


def plan_of(source: Side, target: Side, places: list[Namespace]) -> Plan:
    """Returns the plan for places of the source. Raises RestError."""
    refusals: list[str] = []
    notes: list[str] = []
    for namespace in places:
        for topic in namespace.topics:
            refusals += _refusals(target, topic)
            notes += _notes(topic)
    ours, theirs = (side.get_if_there(_CONFIGURATION) for side in (source, target))
    if isinstance(ours, dict) and isinstance(theirs, dict):
        notes += _lower_limits(ours, theirs)
    return Plan(places, refusals, notes)


def _refusals(target: Side, topic: Topic) -> Iterator[str]:
    there = target.get_if_there(f"{topic.path}/partitions")
    partitions = 0 if there is None else int(there.get("partitions", 0))
    if partitions and partitions != topic.partition_count:
        yield f"{topic.name} has {topic.partition_count} partitions in the source and {partitions} in the target"
    elif topic.partition_count and not partitions and target.get_if_there(f"{topic.path}/stats") is not None:
        yield f"{topic.name} has {topic.partition_count} partitions in the source and none in the target"


def _notes(topic: Topic) -> Iterator[str]:
    for partition in topic.partitions:
        for name, cursor in partition.cursors.items():
            of_subscription = cursor["stats"]
            if of_subscription.get("consumers"):
                yield (
                    f"{partition.name}: consumers of subscription {name} are connected: their acknowledgements of "
                    "parts of batches cannot be read, and those that come after the copy are not moved"
                )
            if of_subscription.get("replicated", of_subscription.get("isReplicated")):
                yield f"{partition.name}: subscription {name} is replicated, its copy is not"


def _lower_limits(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[str]:
    if str(theirs.get(_BATCH_INDEX)).lower() == "false" and str(ours.get(_BATCH_INDEX)).lower() == "true":
        yield f"{_BATCH_INDEX} is false in the target: batches that are acknowledged in part are delivered whole there"
    sizes = int(ours.get(_MESSAGE_SIZE, 0)), int(theirs.get(_MESSAGE_SIZE, 0))
    if sizes[1] < sizes[0]:
        yield f"{_MESSAGE_SIZE} of the target is {sizes[1]}, of the source {sizes[0]}: larger entries stop their copy"


def _row(topic: Topic) -> dict[str, Any]:
    subscriptions = sorted({name for partition in topic.partitions for name in partition.cursors})
    return {
        "topic": str(topic.name),
        "partitions": topic.partition_count,
        "entries": sum(partition.entries for partition in topic.partitions),
        "bytes": sum(partition.size_bytes for partition in topic.partitions),
        "subscriptions": ", ".join(subscriptions),
    }


def path_of(name: str) -> str:
    """Returns the REST path of a topic by its full name."""
    return topic_path(TopicName.parse(name))
