"""A move from its plan to its report (MOVE-6, MOVE-7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from spark_pulsar.cli.move.making import make_namespace, make_schemas, make_topic
from spark_pulsar.cli.move.places import OWN_SUBSCRIPTION, Namespace, Topic, at_once, partitions_of
from spark_pulsar.cli.move.plan import Plan, path_of
from spark_pulsar.cli.move.policies import Difference, copy_permissions, copy_policies
from spark_pulsar.cli.move.sides import Side
from spark_pulsar.cli.move.subscriptions import MovedSubscription, move_subscriptions
from spark_pulsar.client.copying.copier import CopiedPartition, Copier
from spark_pulsar.client.copying.partition_copy import PartitionRoute
from spark_pulsar.model.policies.policy_table import DEDUPLICATION


@dataclass
class Report:
    """The outcome of a move."""

    partitions: list[CopiedPartition] = field(default_factory=list)
    subscriptions: list[MovedSubscription] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        """Returns whether the target is as the source."""
        return (
            all(one.is_equal for one in self.partitions)
            and not any(one.difference for one in self.subscriptions)
            and not self.differences
        )

    def to_json(self) -> dict[str, list[dict[str, Any]]]:
        """Returns the rows of the report by their kind."""
        return {
            "partitions": [_row(one) for one in self.partitions],
            "subscriptions": [one.row() for one in self.subscriptions],
            "differences": [one._asdict() for one in self.differences],
        }


class Move:
    """A move of the places of a plan. It may be killed and made again with the same directory of positions."""

    def __init__(self, source: Side, target: Side, plan: Plan, directory: Path) -> None:
        self._source = source
        self._target = target
        self._plan = plan
        self._copier = Copier(source.client, target.client, directory)

    def run(self, progress: Callable[[int, int], None]) -> Report:
        """Makes the places, copies the messages, then moves subscriptions, then policies. Raises RestError,
        PulsarError for what ends a move; a partition that fails is in the report."""
        report = Report()
        routes: list[PartitionRoute] = []
        for namespace in self._plan.places:
            make_namespace(self._source, self._target, namespace)
            for of_topic in at_once(partial(self._made, namespace), namespace.topics):
                routes += of_topic
        last_entries = {
            one.name: one.last_entry for _, one in partitions_of(self._plan.places) if one.last_entry is not None
        }
        report.partitions = self._copier.copy(routes, progress, last_entries)
        for copied in report.partitions:
            if copied.is_equal:
                with self._copier.positions(copied.route) as positions:
                    report.subscriptions += move_subscriptions(self._source, self._target, copied, positions)
        failed = {one.route.source for one in report.partitions if not one.is_equal}
        for namespace in self._plan.places:
            names = {partition.name for topic in namespace.topics for partition in topic.partitions}
            if names & failed:  # another run is to find what keeps its messages
                said = "not set before all messages are copied"
                report.differences.append(Difference(namespace.path, "policies and permissions", "", said))
            else:
                report.differences += self._finish(namespace)
        return report

    def _made(self, namespace: Namespace, topic: Topic) -> list[PartitionRoute]:
        """Makes a topic in the target; returns the routes of its partitions."""
        make_topic(self._target, namespace, topic)
        versions = make_schemas(self._source, self._target, topic)
        if not topic.is_stored:
            return []
        return [
            PartitionRoute(one.name, one.name, versions, topic.deduplicates) for one in topic.partitions if one.exists
        ]

    def _finish(self, namespace: Namespace) -> list[Difference]:
        """Gives a namespace and its topics the policies of the source, and ends what has ended there."""
        source, target = self._source, self._target
        differences = [
            difference
            for of_topic in at_once(partial(self._finish_topic, namespace), namespace.topics)
            for difference in of_topic
        ]
        differences += copy_policies(source, target, namespace.path, of_topic=False)
        differences += copy_permissions(source, target, namespace.path)
        properties = source.get_if_there(f"{namespace.path}/properties")
        if properties:
            target.call("PUT", f"{namespace.path}/properties", properties)
        return differences

    def _finish_topic(self, namespace: Namespace, topic: Topic) -> list[Difference]:
        # De-duplication that the source has by its configuration is a policy of the topic in the target.
        kept = (DEDUPLICATION,) if topic.deduplicates else ()
        differences = copy_policies(self._source, self._target, topic.path, of_topic=True, kept=kept)
        differences += copy_permissions(self._source, self._target, topic.path, namespace.path)
        for partition in topic.partitions if topic.is_stored else ():
            if partition.exists:
                path = path_of(partition.name)
                if partition.is_terminated:
                    self._target.call("POST", f"{path}/terminate")
                if partition.is_compacted:
                    self._target.call("PUT", f"{path}/compaction")
                self._target.client.unsubscribe([partition.name], OWN_SUBSCRIPTION)
        return differences


def _row(copied: CopiedPartition) -> dict[str, Any]:
    comparison = copied.comparison
    result = str(copied.error) if comparison is None else comparison.difference or "equal"
    counts = (
        {"entries": None, "messages": None, "bytes": None, "checksum": None, "checksum of the copy": None}
        if comparison is None
        else {
            "entries": comparison.entries,
            "messages": comparison.messages,
            "bytes": comparison.size_bytes,
            "checksum": f"{comparison.source_checksum:08x}",
            "checksum of the copy": f"{comparison.target_checksum:08x}",
        }
    )
    return {"topic": copied.route.source, **counts, "result": result}
