"""Sessions: one per connection. Handshake, keep-alive, is a silent peer still there (wire-protocol 5.1, 5.12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from spark_pulsar.wire.pulsar_api_pb2 import CommandProducer, CommandSubscribe

    from .consumer import Consumer
    from .exclusive_access import Waiter
    from .features import TopicListWatcher
    from .producer import Producer

_Command = TypeVar("_Command")


class Session:
    """One connection and what it owns."""

    __slots__ = (
        "alive_waiters",
        "client_version",
        "connected",
        "connected_ms",
        "consumers",
        "dropped_producers",
        "heard",
        "joining",
        "local",
        "open",
        "opening",
        "peer",
        "pending_publish_bytes",
        "pending_publishes",
        "producer_rows",
        "producers",
        "protocol_version",
        "reading_paused",
        "session_id",
        "throttles",
        "waiting_producers",
        "watchers",
        "writable",
    )

    def __init__(self, session_id: int, peer: str, local: str, now_ms: int) -> None:
        self.session_id = session_id
        self.peer = peer
        self.local = local
        self.connected_ms = now_ms
        self.open = True
        """False once its end was ordered; nothing is sent any more."""
        self.connected = False
        """Whether the handshake is done."""
        self.protocol_version = 0
        self.client_version = ""
        self.writable = True
        self.reading_paused = False
        self.heard = True
        """Whether anything arrived since the last PING we sent."""
        self.producers: dict[int, Producer] = {}
        self.producer_rows: dict[int, int] = {}
        """By the ids of producers, where their numbers stand in `Core.producer_counters`."""
        self.opening: dict[int, CommandProducer] = {}
        """By the ids of producers that wait to open, for the quota or until the holder of their name is looked for."""
        self.dropped_producers: set[int] = set()
        """Ids that we closed: SENDs still under way for them are dropped silently (wire-protocol 5.4)."""
        self.waiting_producers: dict[int, Waiter] = {}
        """By the ids of producers that wait for exclusive access (PR-6)."""
        self.watchers: dict[int, TopicListWatcher] = {}
        """By the ids of lists of topics that it watches (MT-2)."""
        self.consumers: dict[int, Consumer] = {}
        self.joining: dict[int, CommandSubscribe] = {}
        """By the ids of consumers that wait to join, for the end of a seek or until a rival is looked for."""
        self.pending_publishes = 0
        """Entries received whose receipt was not sent yet (PR-15)."""
        self.pending_publish_bytes = 0
        self.throttles = 0
        """Rates that hold back something of it (PR-14)."""
        self.alive_waiters: list[Callable[[bool], None]] = []
        """Who waits to hear whether the peer still answers."""

    @property
    def host(self) -> str:
        """The address of the peer without its port."""
        return self.peer.rpartition(":")[0]


# ---- commands ---------------------------------------------------------------------------------------------------


# ---- who is there -----------------------------------------------------------------------------------------------


# ---- back-pressure ----------------------------------------------------------------------------------------------
