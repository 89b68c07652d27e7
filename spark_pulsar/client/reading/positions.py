"""Arithmetic of positions "next to read".

A position is a `MessageId`: everything before it is done. A batch index of -1 or 0 means the whole entry is still to
read, k > 0 means messages 0…k-1 of that entry are done. `MessageId(-1, -1)` is the beginning of any topic (W4).
"""

from spark_pulsar.model.positions.ids import MessageId


def after_entry(message_id: MessageId) -> MessageId:
    """Returns the position after all messages of the entry of `message_id`.

    The entry with the next number need not exist (the ledger may have ended); positions compare all the same (W7).
    """
    return MessageId(message_id.ledger_id, message_id.entry_id + 1, message_id.partition, -1)


def beginning(partition: int) -> MessageId:
    """Returns the position before everything in a partition (-1 for a topic without partitions)."""
    return MessageId(-1, -1, partition, -1)


def is_beginning(position: MessageId) -> bool:
    """Returns whether `position` is before everything."""
    return position.ledger_id < 0
