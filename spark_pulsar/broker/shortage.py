"""A disk that takes no more: producers are sent away until there is space again; all that frees space goes on (DUR-10).

Storage says so early, while there is room left for acknowledgements, trims and checkpoints. Clients of producers keep
what has no receipt and come back by themselves; consumers go on reading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.model.errors import ServiceNotReady

from . import producers

if TYPE_CHECKING:
    from .core import Core
    from .events import StorageShort


def admit_producer(core: Core) -> None:
    """ServiceNotReady, with which clients try again, while the disk takes no more."""
    if core.shortage:
        raise ServiceNotReady(f"The broker takes no messages: {core.shortage}")


def on_storage_short(core: Core, event: StorageShort) -> None:
    """The disk is short of space, or no more."""
    core.shortage = event.reason
    if not event.reason:
        return
    for session in core.sessions.values():
        for producer in list(session.producers.values()):
            if event.is_stalled:
                # What it sent before cannot be answered as long as this lasts.
                producers.disconnect(core, producer)
            else:
                producers.disconnect_after_receipts(core, producer)
