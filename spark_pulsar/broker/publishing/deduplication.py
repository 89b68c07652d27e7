"""De-duplication: entries that a producer repeats are not stored again (DED-1 ... DED-13). It has no cursor,
and holds back no ledger (DED-10).

For every producer name the topic's durable state keeps the highest sequence id taken. It is written in the same group
as the entries (`SequencesReached`), so nothing is ever read again to know it, and a crash cannot part the two. Memory
runs ahead of the disk here as everywhere: a repeated entry whose first copy is still being written is answered when
that copy is on disk (Apache Pulsar refuses it: DED-4). When writing fails the broker starts again
from the disk, and sequence ids that were not written are not known (DED-5).

A run that is all new is known by its first id and by counting up from it; only others are judged entry by entry.
"""

from __future__ import annotations

from enum import Enum
from itertools import groupby
from operator import add, le, lt
from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.turn.slices import run_in_slices
from spark_pulsar.ledger.state.deduplication import SequencesForgotten, SequencesReached
from spark_pulsar.model.errors import ChecksumFailed, CorruptMessage, NotAllowed, PulsarError
from spark_pulsar.model.names import REPLICATOR_PREFIX
from spark_pulsar.model.positions.ids import signed
from spark_pulsar.wire.entries.entry_bytes import metadata_of, text_of
from spark_pulsar.wire.sends.send_runs import CHUNK, SendRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.producer import Producer
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.ledger.state.topics import TopicState
    from spark_pulsar.model.names import TopicName

NOTHING_SENT: Final = -1
"""Last sequence id sent to a producer of which none is known (PR-3)."""

_BELOW_ALL: Final = -(1 << 63) - 1
_ABOVE_ALL: Final = 1 << 63
_CHECKS_PER_TIMEOUT: Final = 10
_TOPICS_A_TURN: Final = 256
_MOST_OFTEN_MS: Final = 1_000
_CPP_CLIENTS: Final = "Pulsar-CPP"
_MIXED: Final = (
    "The batch mixes messages that are stored already with new ones (de-duplication): send the new ones by themselves"
)


class Verdict(Enum):
    """Verdict on entries."""

    NEW = "new"
    """New entries are stored."""
    DUPLICATE = "duplicate"
    """Entries that are stored already get a receipt without a position (DED-3)."""
    MIXED = "mixed"
    """A batch of which a part is stored already: refused, where Apache Pulsar drops it all (DED-13)."""


# ---- on and off -------------------------------------------------------------------------------------------------


def begin(core: Core) -> None:
    """Starts to note producers that stay away, if sequence ids are known of any."""
    if any(topic.sequences for topic in core.state.topics.values()):
        _watch(core)


def apply_policy(core: Core, topic: Topic) -> None:
    """Switches de-duplication of a topic on or off by its policies; off, its sequence ids are removed (DED-1)."""
    topic.deduplicates = core.policies_of(topic.name).deduplication
    if topic.deduplicates:
        _watch(core)
    else:
        remove_if_off(core, topic.name, topic.state)


def remove_if_off(core: Core, name: TopicName, state: TopicState) -> None:
    """Removes the sequence ids of a topic that is not de-duplicated, in use or not (DED-1)."""
    if state.sequences and not core.policies_of(name).deduplication:
        core.append(SequencesForgotten(state.topic_id, ()))


# ---- judging ----------------------------------------------------------------------------------------------------


def last_sequence_id(topic: Topic, producer_name: str) -> int:
    """Returns the highest id taken from a producer; NOTHING_SENT when none is known (PR-11). Send it when durable."""
    return topic.state.sequences.get(producer_name, NOTHING_SENT)


def named_parts(producer: Producer, sends: SendRun) -> list[tuple[str, SendRun]]:
    """Divides a run by the names under which its entries are judged: the producer's, or for a replicator those in their
    metadata (DED-12). Metadata that cannot be read: its own."""
    if not producer.name.startswith(REPLICATOR_PREFIX):
        return [(producer.name, sends)]
    names = [_name_in_metadata(sends, index) or producer.name for index in range(len(sends))]
    parts: list[tuple[str, SendRun]] = []
    for name, indexes in groupby(range(len(names)), names.__getitem__):
        first, *others = indexes
        parts.append((name, sends.slice(first, first + 1 + len(others))))
    return parts


def _name_in_metadata(sends: SendRun, index: int) -> str:
    try:
        return text_of(metadata_of(sends.buffer, sends.starts[index], sends.ends[index]).producer_name)
    except CorruptMessage:
        return ""


def record_if_new(core: Core, topic: Topic, name: str, sends: SendRun) -> SequencesReached | None:
    """Returns the record for a run that is all new, as nearly every one is; None when it must be judged."""
    lows = sends.sequence_ids
    known = topic.state.sequences
    last = known.get(name)
    if last is None:
        _make_room(core, topic, name)
    elif lows[0] <= last:
        return None
    if sends.flags & CHUNK or not _rises(lows, sends.highest_sequence_ids, sends.message_counts):
        return None
    highs = sends.highest_sequence_ids
    high = lows[-1] + sends.message_counts[-1] - 1
    if highs is not None and highs[-1] > high:
        high = highs[-1]
    return SequencesReached((topic.state.topic_id,), (name,), (high,))


def judge(topic: Topic, producer_name: str, sends: SendRun) -> list[tuple[Verdict, SendRun]]:
    """Divides a run into stretches in their order, each with its verdict (DED-2, X13)."""
    last = topic.state.sequences.get(producer_name, _BELOW_ALL)
    lows = sends.sequence_ids
    stretches: list[tuple[Verdict, SendRun]] = []
    begun, current = 0, None
    for index in range(len(lows)):
        low, high = _ids(sends, index)
        if sends.flags & CHUNK and not _is_last_chunk(sends, index):
            verdict = Verdict.NEW  # a message is judged by its last chunk (DED-8)
        elif low > last:
            verdict, last = Verdict.NEW, high
        else:
            verdict = Verdict.DUPLICATE if high <= last else Verdict.MIXED
        if verdict is not current:
            if current is not None:
                stretches.append((current, sends.slice(begun, index)))
            begun, current = index, verdict
    assert current is not None, "a run has entries"
    stretches.append((current, sends.slice(begun, len(lows))))
    return stretches


def record_of_judged(topic: Topic, name: str, sends: SendRun) -> SequencesReached | None:
    """Returns the record for a stretch that was judged to be new; None for chunks without a last one (DED-8, CHK-8)."""
    last = len(sends) - 1
    if sends.flags & CHUNK:
        while last >= 0 and not _is_last_chunk(sends, last):
            last -= 1
    if last < 0:
        return None
    return SequencesReached((topic.state.topic_id,), (name,), (_ids(sends, last)[1],))


def reached_in_columns(
    core: Core, producers: Sequence[Producer], sequence_ids: Sequence[int], message_counts: Sequence[int]
) -> tuple[bool, SequencesReached | None]:
    """Returns whether all entries of columnar SENDs may be stored, and the record for those of their topics that
    de-duplicate."""
    lasts: dict[Producer, int] = {}
    for producer, sequence_id, messages in zip(producers, sequence_ids, message_counts, strict=True):
        topic = producer.topic
        if topic.deduplicates:
            last = lasts.get(producer)
            if last is None:
                if producer.name.startswith(REPLICATOR_PREFIX):
                    return False, None  # each entry may have another name
                last = topic.state.sequences.get(producer.name, _BELOW_ALL)
            if not last < sequence_id < _ABOVE_ALL - messages:
                return False, None
            lasts[producer] = sequence_id + messages - 1
    if not lasts:
        return True, None
    for producer in lasts:
        _make_room(core, producer.topic, producer.name)
    topic_ids = [producer.topic.state.topic_id for producer in lasts]
    return True, SequencesReached(topic_ids, [producer.name for producer in lasts], list(lasts.values()))


def mixed_batch_error(producer: Producer) -> PulsarError:
    """Returns the error that refuses a mixed batch. C++ clients, Python's and Node's among them, fail a message on
    ChecksumError alone and reconnect on anything else, for ever when the send timeout is off (DED-11); others fail it
    on NotAllowed (DED-13)."""
    is_cpp = producer.session.client_version.startswith(_CPP_CLIENTS)
    return ChecksumFailed(_MIXED) if is_cpp else NotAllowed(_MIXED)


def _rises(lows: Sequence[int], highs: Sequence[int] | None, counts: Sequence[int]) -> bool:
    """Returns whether every entry's ids lie above those of the entry before it (DED-2)."""
    first, count = lows[0], counts[0]
    number = len(lows)
    if lows[-1] + counts[-1] >= _ABOVE_ALL:
        return False
    if highs is not None:
        return highs[-1] < _ABOVE_ALL and all(map(le, lows, highs)) and all(map(lt, highs, lows[1:]))
    if number == 1:
        return True
    if counts.count(count) == number and lows == list(range(first, first + number * count, count)):
        return True
    return all(map(le, map(add, lows, counts), lows[1:]))


def _ids(sends: SendRun, index: int) -> tuple[int, int]:
    """Returns the lowest and highest sequence id of an entry. C++ clients do not send the highest one of a batch: it is
    at least the lowest and one more for every other message, as far as there are ids."""
    low = signed(sends.sequence_ids[index])
    high = min(low + sends.message_counts[index] - 1, _ABOVE_ALL - 1)
    highs = sends.highest_sequence_ids
    return low, high if highs is None else max(high, signed(highs[index]))


def _is_last_chunk(sends: SendRun, index: int) -> bool:
    """Returns whether an entry of a run of chunks is the last of its message. Metadata that cannot be read: not
    chunked."""
    try:
        metadata = metadata_of(sends.buffer, sends.starts[index], sends.ends[index])
    except CorruptMessage:
        return True
    return metadata.chunk_id >= metadata.num_chunks_from_msg - 1


# ---- removal ----------------------------------------------------------------------------------------------------


def _make_room(core: Core, topic: Topic, producer_name: str) -> None:
    """Removes the producer that is silent for longest when one more would be too many."""
    known = topic.state.sequences
    if producer_name in known or len(known) < core.config.deduplication_max_producers:
        return
    topic_id, since = topic.state.topic_id, core.silent_producers.since_ms
    silent = [name for name in known if name not in topic.producers]
    if silent:
        oldest = min(silent, key=lambda name: since.get((topic_id, name), core.now_ms))
        core.append(SequencesForgotten(topic_id, (oldest,)))


def on_joined(core: Core, producer: Producer) -> None:
    """Notes that a producer is not silent any more."""
    silent, key = core.silent_producers, (producer.topic.state.topic_id, producer.name)
    silent.since_ms.pop(key, None)
    silent.found_ms.pop(key, None)


def _watch(core: Core) -> None:
    if not core.silent_producers.is_watching:
        core.silent_producers.is_watching = True
        _check_later(core)


def _check_later(core: Core) -> None:
    timeout_ms = core.config.deduplication_producer_timeout_ms
    pause_ms = max(_MOST_OFTEN_MS, timeout_ms // _CHECKS_PER_TIMEOUT)
    core.at(core.now_ms + pause_ms, lambda: _remove_silent(core, timeout_ms))


def _remove_silent(core: Core, timeout_ms: int) -> None:
    """Removes the producers that were away for the whole timeout, and notes those that are away now; some topics a
    turn."""
    silent = core.silent_producers

    def check(state: TopicState) -> None:
        topic_id, topic = state.topic_id, core.topics.get(state.name)
        if not state.sequences or topic_id not in core.state.topics:
            return
        connected = () if topic is None else topic.producers
        gone: list[str] = []
        for name in state.sequences:
            if name not in connected:
                since_ms = silent.since_ms.get((topic_id, name), core.now_ms)
                if core.now_ms - since_ms >= timeout_ms:
                    gone.append(name)
                else:
                    silent.found_ms[topic_id, name] = since_ms
        if gone:
            core.append_lazily(SequencesForgotten(topic_id, tuple(gone)))

    def done() -> None:
        silent.since_ms, silent.found_ms = silent.found_ms, {}
        _check_later(core)

    run_in_slices(core, map(check, list(core.state.topics.values())), _TOPICS_A_TURN, done)
