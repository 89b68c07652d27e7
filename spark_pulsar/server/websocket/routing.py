"""Choice of a partition by a producer, as Apache Pulsar's Java client makes it (WS-7, PT-2 ... PT-4)."""

from __future__ import annotations

from typing import Final

from spark_pulsar.wire.keys.murmur3 import MASK, murmur3_32

HASHING_SCHEMES: Final = {"JavaStringHash": 0, "Murmur3_32Hash": 1}
ROUTING_MODES: Final = {"SinglePartition": 0, "RoundRobinPartition": 1, "CustomPartition": 2}


def java_string_hash(key: str) -> int:
    """Returns the hash code of a Java string, without its sign."""
    value = 0
    units = key.encode("utf-16-le", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] | units[at + 1] << 8)) & 0xFFFFFFFF
    return value & MASK


class Router:
    """Partitions of the messages of one producer: by their key; without one, the same for all or one after another."""

    def __init__(self, partitions: int, mode: str, hashing_scheme: str, start: int) -> None:
        """`start`: any number, which chooses the partition to begin with."""
        self._partitions = partitions
        self._is_single = mode == "SinglePartition"
        self._is_java = hashing_scheme == "JavaStringHash"
        self._next = start % partitions

    def partition_of(self, key: str | None) -> int:
        """Returns the index of the partition of the next message."""
        if self._partitions == 1:
            return 0
        if key is not None:
            hashed = java_string_hash(key) if self._is_java else murmur3_32(key.encode())
            return hashed % self._partitions
        chosen = self._next
        if not self._is_single:
            self._next = (chosen + 1) % self._partitions
        return chosen
