"""Reading in a task: one range of one topic partition becomes Arrow record batches.

Entries arrive in blocks, which are unpacked into record batches (`block_unpacking`), decoded by the schema of the topic
and given Spark's exact types. `gaps` distinguishes what was lost from ids without a message (TXN-7, OFFSET-7), and a
range that ends too early is reported at once (OFFSET-8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.errors import EndNotReached, OperationTimeout
from spark_pulsar.client.reading.fetch import DEFAULT_QUEUED_BYTES
from spark_pulsar.connector.errors import UnreadableMessageError
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.planning.data_loss import report_losses
from spark_pulsar.connector.planning.ranges import TopicRange
from spark_pulsar.connector.reading.block_unpacking import BlockUnpacking
from spark_pulsar.connector.reading.gaps import RangeGaps
from spark_pulsar.connector.reading.projection import Projection
from spark_pulsar.model.errors import CorruptMessage, MalformedBatch, TopicNotFound
from spark_pulsar.model.positions.ids import MessageId
from spark_pulsar.wire.entries.entry_blocks import EntryBlock

if TYPE_CHECKING:
    import pyarrow as pa


class Blocks(Protocol):
    """Blocks of one range, in order: a `Fetch`, or what has arrived of it before."""

    @property
    def finished(self) -> bool:
        """True when the end of the range was reached."""

    @property
    def position(self) -> MessageId:
        """Next to read after everything that was handed out."""

    def next_block(self, timeout_ms: int) -> EntryBlock | None:
        """Returns the next block; None when the time is up or the end was reached."""


def read_range(
    client: PulsarClient, options: Options, work: TopicRange, projection: Projection, arrived: Blocks | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields the messages of one range, in order, as record batches of up to 10,000 rows and 16 MB (READ-26).

    What has `arrived` before is taken from there, else it is fetched: the reader on the broker is closed when the
    iterator ends or is closed. Raises DataLossError when messages of the range are gone (unless `failOnDataLoss` is
    false), UnreadableMessageError, OperationTimeout.
    """
    unpacking = BlockUnpacking(client, options, work.topic, projection.read_names)
    gaps = RangeGaps(client, work)
    reached_last_ledger = work.end.entry_id == 0 and work.end.batch_index == 0
    try:
        with _blocks(client, options, work, arrived) as fetch, decoding(client, work, projection) as decode:
            while True:
                block = fetch.next_block(options.poll_timeout_ms)
                if block is None:
                    break
                report_losses(gaps.add(block), fail=options.fail_on_data_loss)
                reached_last_ledger = reached_last_ledger or work.end.ledger_id in (
                    block.ledger_ids[0],
                    block.ledger_ids[-1],
                )
                for batch in unpacking.batches(block):
                    yield projection.fit(decode(batch))
            check_finished(fetch, work, options)
        losses = gaps.end()
    except (MalformedBatch, CorruptMessage) as error:
        raise UnreadableMessageError(f"{work.topic}: {error}") from error
    except (EndNotReached, TopicNotFound) as error:
        loss = f"{work.topic} cannot be read from {work.start} to {work.end}: {error}"
        report_losses([loss], fail=options.fail_on_data_loss)
        return
    report_losses(losses, fail=options.fail_on_data_loss)
    if not reached_last_ledger and not losses and not gaps.reaches_end():
        text = f"{work.topic}: what lay before {work.end} was removed from the broker before it was read"
        loss = f"{text}; retention, or a stream's subscriptionName, would have kept it"
        report_losses([loss], fail=options.fail_on_data_loss)


def _blocks(
    client: PulsarClient, options: Options, work: TopicRange, arrived: Blocks | None
) -> AbstractContextManager[Blocks]:
    if arrived is not None:
        return nullcontext(arrived)
    return client.fetch(
        work.topic,
        work.start.message_id,
        work.end.message_id,
        max_queued_bytes=options.queued_bytes(DEFAULT_QUEUED_BYTES),
        max_queued_messages=options.receiver_queue_size,
    )


@contextmanager
def decoding(
    client: PulsarClient, work: TopicRange, projection: Projection
) -> Iterator[Callable[[Any], pa.RecordBatch]]:
    """Gives the decoding of record batches by the schema of the topic, if there is one."""
    if projection.decoding is None:
        yield lambda batch: batch
        return
    from spark_pulsar.connector.schemas.decoding.batches import BatchDecoder

    with BatchDecoder(client, work.topic, work.end.ledger_id, projection.decoding, projection.names) as decoder:
        yield decoder.decode


def check_finished(fetch: Blocks, work: TopicRange, options: Options) -> None:
    """Refuses a range whose next entry did not come in time (READ-10). Raises OperationTimeout."""
    if not fetch.finished:
        place = f"{work.topic} from {work.start} to {work.end}, at {fetch.position}"
        raise OperationTimeout("waiting for the next entry", place, options.poll_timeout_ms)
