"""A process that copies one partition and prints a line for each progress, to be killed: SOURCE TARGET FROM TO DIR."""

from __future__ import annotations

import sys
from pathlib import Path

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.copying.copier import Copier
from spark_pulsar.client.copying.partition_copy import PartitionRoute


def _print(entries: int, size_bytes: int) -> None:
    print(entries, size_bytes, flush=True)


if __name__ == "__main__":
    source, target, taken_from, given_to, directory = sys.argv[1:]
    with PulsarClient(ClientConfig(source)) as ours, PulsarClient(ClientConfig(target)) as theirs:
        copier = Copier(ours, theirs, Path(directory), memory_bytes=1 << 20, at_once=1)
        (result,) = copier.copy([PartitionRoute(taken_from, given_to)], _print)
        assert result.is_equal, result
