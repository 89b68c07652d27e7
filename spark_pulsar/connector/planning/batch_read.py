"""Planning of a batch read: its ranges, resolved once for all partitions side by side (READ-22), when the first action
plans. Its end may be the start of a stream (READ-47)."""

from __future__ import annotations

from collections.abc import Mapping

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.errors import OffsetError
from spark_pulsar.connector.offsets.endpoints import compacted_ends, ending_positions, starting_positions
from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.offsets.subscription_start import cursor_positions
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.options.timeouts import naming
from spark_pulsar.connector.planning.data_loss import report_losses
from spark_pulsar.connector.planning.extents import measured_extents
from spark_pulsar.connector.planning.first_entries import beginning_at, first_entries, named_starts_gone
from spark_pulsar.connector.planning.pruning import KeyPruning
from spark_pulsar.connector.planning.ranges import TopicRange, plan
from spark_pulsar.connector.planning.splitting import cut_points, may_be_cut, parts_of
from spark_pulsar.connector.planning.topic_partitions import find_partitions, when_they_exist


@naming("operationTimeoutMs")
def plan_batch(client: PulsarClient, options: Options) -> list[TopicRange]:
    """Ranges of a batch read, resolved now, or when all topics exist. Raises OffsetError, TopicNotFound."""
    return when_they_exist(options, lambda: _plan_batch(client, options))


def _plan_batch(client: PulsarClient, options: Options) -> list[TopicRange]:
    topics = find_partitions(client, options)
    if not options.starts_at_cursor:
        start = starting_positions(client, topics, options, "earliest")
    else:
        start = cursor_positions(client, topics, options, "earliest")
    end = ending_positions(client, topics, options)
    if options.read_compacted:
        end = compacted_ends(end)
    for topic in topics:
        if isinstance(options.ending_offsets, Mapping) and end[topic] < start[topic]:
            raise OffsetError(
                f"endingOffsets of {topic} ({end[topic]}) lies before its startingOffsets ({start[topic]})"
            )
        end[topic] = max(start[topic], end[topic])  # a start beyond the end of the topic reads nothing
    pruning = KeyPruning(client, options)
    ranges = pruning.ranges(plan(SourceOffset(start), SourceOffset(end)).ranges, pruning.partition_counts(topics, {}))
    if options.read_compacted:
        return ranges  # from its beginning: the view has entries that the topic has no longer
    first = first_entries(client, ranges, options.operation_timeout_ms)
    report_losses(named_starts_gone(client, options, ranges, first), fail=options.fail_on_data_loss)
    begun = beginning_at(ranges, first)
    if not may_be_cut(begun, options.split):
        return begun
    timeout_ms, in_messages = options.operation_timeout_ms, options.split.max_records is not None
    cuts = cut_points(begun, measured_extents(client, begun, timeout_ms, in_messages=in_messages), options.split)
    return [part for work in begun for part in parts_of(work, cuts.get(work.topic, ()))]
