"""Reading in a task: one range of one topic partition becomes Arrow record batches.

Entries arrive in blocks; the kernels turn the entries of a block into record batches in Spark's exact types. Chunked
messages, the only ones that cross entries, are put together on the side and take the place of their last chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.errors import EndNotReached, OperationTimeout
from spark_pulsar.connector.data_loss import report_losses
from spark_pulsar.connector.errors import UnreadableMessageError
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.planning.ranges import TopicRange
from spark_pulsar.connector.reading.chunked import ChunkedMessages
from spark_pulsar.connector.reading.decryption import EntryDecryption
from spark_pulsar.connector.reading.gaps import RangeGaps
from spark_pulsar.connector.reading.projection import Projection
from spark_pulsar.model.errors import CorruptMessage, MalformedBatch, TopicNotFound
from spark_pulsar.model.ids import MessageId
from spark_pulsar.wire.columns.entries import EntryTable, Kind, inspect_block
from spark_pulsar.wire.columns.key_set import KeySet
from spark_pulsar.wire.columns.records import RecordDecoder
from spark_pulsar.wire.entry_blocks import EntryBlock

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
    """Yields the messages of one range, in order, as record batches of up to 10,000 rows and 16 MB.

    What has `arrived` before is taken from there, else it is fetched: the reader on the broker is closed when the
    iterator ends or is given up. Raises DataLossError when messages of the range are gone (unless `failOnDataLoss` is
    false), UnreadableMessageError, OperationTimeout.
    """
    decryption = EntryDecryption(work.topic, options)
    chunks = ChunkedMessages(client, work.topic, decryption.open, fail_on_data_loss=options.fail_on_data_loss)
    gaps = RangeGaps(client, work)
    keys = None if options.keys is None else KeySet(options.keys.texts, options.keys.encoded)
    decoder = RecordDecoder(work.topic, projection.read_names, keys=keys)
    reached_last_ledger = work.end.entry_id == 0 and work.end.batch_index == 0
    try:
        with _blocks(client, work, arrived) as fetch, decoding(client, work, projection) as decode:
            while True:
                block = fetch.next_block(options.poll_timeout_ms)
                if block is None:
                    break
                report_losses(gaps.take(block), fail=options.fail_on_data_loss)
                reached_last_ledger = reached_last_ledger or work.end.ledger_id in (
                    block.ledger_ids[0],
                    block.ledger_ids[-1],
                )
                for part in whole_messages(decryption.open(inspect_block(block)), chunks):
                    for batch in decoder.batches(part):
                        yield projection.fit(decode(batch))
            if not fetch.finished:
                raise OperationTimeout("waiting for the next entry", _place(work, fetch), options.poll_timeout_ms)
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


def _blocks(client: PulsarClient, work: TopicRange, arrived: Blocks | None) -> AbstractContextManager[Blocks]:
    if arrived is not None:
        return nullcontext(arrived)
    return client.fetch(work.topic, work.start.message_id, work.end.message_id)


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


def _place(work: TopicRange, fetch: Blocks) -> str:
    return f"{work.topic} from {work.start} to {work.end}, at {fetch.position}"


def whole_messages(table: EntryTable, chunks: ChunkedMessages) -> Iterator[EntryTable]:
    """Tables without chunks, in order: runs of plain entries, and each chunked message where its last chunk stands."""
    if not table.has_chunks:
        yield table
        return
    first = 0
    for i in (table.kinds == Kind.CHUNK).nonzero()[0].tolist():
        if first < i:
            yield table.part(first, i)
        first = i + 1
        whole = chunks.take(table, i)
        if whole is not None:
            yield whole
    if first < len(table):
        yield table.part(first, len(table))
