"""Refusals of single entries: meaning of a SEND_ERROR for its entry, and whether the same bytes may be sent again
(SINK-13, SINK-14). `Publisher` sees to it that a refused entry is not lost (SINK-16)."""

from typing import Final

from spark_pulsar.client.errors import ConnectionLost
from spark_pulsar.client.publishing.attached_producer import SentEntry
from spark_pulsar.model.errors import ChecksumFailed, MetadataError, NotAllowed, PulsarError
from spark_pulsar.wire.entries.entry_bytes import Checksum, Entry, parse_entry

_TOO_LARGE: Final = "maximum message size"
_TOO_LATE: Final = "delivery delay"
_ENCRYPTED: Final = "encrypt"


def is_too_large(error: PulsarError) -> bool:
    """Returns whether a broker refused an entry for the topic's policy `maxMessageSize`, which CONNECTED does not
    announce."""
    return isinstance(error, NotAllowed) and _TOO_LARGE in error.message.lower()


def is_final(error: PulsarError) -> bool:
    """Returns whether no repetition can mend an error of a producer or of its entry."""
    return not error.retriable or _needs_encryption(error)


def _needs_encryption(error: PulsarError) -> bool:
    """Returns whether a producer, or its entry, was refused because the namespace requires encryption. Pulsar's code
    for it is one that is tried again, in vain."""
    return isinstance(error, MetadataError) and _ENCRYPTED in error.message.lower()


def judged(error: PulsarError, topic: str, sent: SentEntry | None) -> PulsarError:
    """Returns the error of a refused entry: a retriable one where the same bytes may be sent again, else one that names
    the entry and the policy (SINK-15).

    The bytes of an entry whose checksum failed are good here, so that they were changed on their way (Java's client
    sends them again as well).
    """
    if sent is None:
        return error
    if isinstance(error, ChecksumFailed) and parse_entry(bytes(sent.entry)).checksum is Checksum.OK:
        return ConnectionLost(f"{topic}: an entry was changed on its way to the broker: {error.message}")
    if not is_final(error):
        return error
    return type(error)(f"{topic}: {error.message}{_hint(error)}; refused was {described(sent)}")


def described(sent: SentEntry) -> str:
    """Returns the words for an entry: its size, its messages by sequence id, and the key and delay of a single one."""
    entry = parse_entry(bytes(sent.entry))
    text = f"an entry of {len(sent.entry)} bytes with "
    if sent.message_count > 1:
        return f"{text}{sent.message_count} messages, sequence ids {sent.sequence_id} to {last_id_of(sent)}"
    return f"{text}the message of sequence id {sent.sequence_id}{_key(entry)}{_delay(entry)}"


def last_id_of(sent: SentEntry) -> int:
    """Returns the sequence id of the last message of an entry."""
    highest = sent.highest_sequence_id
    return highest if highest is not None else sent.sequence_id + sent.message_count - 1


def _key(entry: Entry) -> str:
    return f", key {entry.metadata.partition_key[:100]!r}" if entry.metadata.HasField("partition_key") else ""


def _delay(entry: Entry) -> str:
    metadata = entry.metadata
    if not metadata.HasField("deliver_at_time"):
        return ""
    return f", to be delivered {metadata.deliver_at_time - metadata.publish_time} ms after it is published"


def _hint(error: PulsarError) -> str:
    if is_too_large(error):
        return " (policy maxMessageSize of the topic)"
    if isinstance(error, NotAllowed) and _TOO_LATE in error.message.lower():
        return (
            " (policy delayedDelivery of the topic or its namespace, or the broker's delayedDeliveryMaxDelayInMillis)"
        )
    if _needs_encryption(error):
        return " (policy encryption_required of the namespace)"
    return ""
