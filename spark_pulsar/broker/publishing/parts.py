"""Parts of a run of SENDs: entries that a limit of their topic allows (ADM-55, DEL-9), and entries that it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_pulsar.model.errors import PulsarError
    from spark_pulsar.wire.sends.send_runs import SendRun

Part = tuple["SendRun", "PulsarError | None"]
"""Consecutive entries, and the error that refuses them; None where they are allowed."""


def parts(sends: SendRun, allowed: Sequence[bool], refusal: PulsarError) -> Iterator[Part]:
    """Yields a run in its longest parts, in order; `allowed` has one value for each entry."""
    done = 0
    for index in range(1, len(allowed) + 1):
        if index == len(allowed) or allowed[index] != allowed[done]:
            part = sends if index - done == len(allowed) else sends.slice(done, index)
            yield part, None if allowed[done] else refusal
            done = index
