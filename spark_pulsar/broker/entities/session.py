"""Sessions: one connection of a client, with its producers and consumers, which go with it (A6:
`connections.handshake.release`). An id that is open is answered from what is open (A17: `on_producer`,
`on_subscribe`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from spark_pulsar.model.principals import UNAUTHENTICATED, Principal

if TYPE_CHECKING:
    from spark_pulsar.broker.turn.turn import Timer
    from spark_pulsar.wire.pulsar_api_pb2 import CommandProducer, CommandSubscribe

    from .consumer import Consumer
    from .exclusive_access import Waiter
    from .features import TopicListWatcher
    from .producer import Producer

MOST_DROPPED_PRODUCERS: Final = 10_000
"""Producers of one session that were closed by the broker and are known as such."""


@dataclass(slots=True, eq=False, repr=False)
class Session:
    """One connection, its producers and its consumers. Dictionaries are by the ids that its client chose."""

    session_id: int
    peer: str
    """Address of the client, `/host:port`."""
    local: str
    """Address that the client connected to, `host:port`."""
    connected_ms: int
    open: bool = True
    """False once its end was ordered; nothing is sent any more."""
    connected: bool = False
    """True after the handshake."""
    is_tls: bool = False
    """True for a connection over TLS."""
    principal: Principal = UNAUTHENTICATED
    """Role that authentication found, and that of the client behind a proxy."""
    protocol_version: int = 0
    client_version: str = ""
    writable: bool = True
    reading_paused: bool = False
    timer: Timer | None = None
    """Timer of the handshake, then of the next PING; cancelled with the session, which it would keep."""
    heard: bool = True
    """True when anything arrived since the last PING of the broker."""
    producers: dict[int, Producer] = field(default_factory=dict)
    producer_rows: dict[int, int] = field(default_factory=dict)
    """Rows of the producers' counters in `Core.producer_counters`."""
    opening: dict[int, CommandProducer] = field(default_factory=dict)
    """Producers that wait to open, for the quota or until the broker has searched for the holder of their name."""
    dropped_producers: dict[int, None] = field(default_factory=dict)
    """Producers that the broker closed lately, in this order: SENDs still under way for them are dropped silently."""
    waiting_producers: dict[int, Waiter] = field(default_factory=dict)
    """Producers that wait for exclusive access (PR-6)."""
    open_transactions: int = 0
    """Transactions that were opened here and have not ended (TX-28)."""
    watchers: dict[int, TopicListWatcher] = field(default_factory=dict)
    """Watched lists of topics (MT-2)."""
    consumers: dict[int, Consumer] = field(default_factory=dict)
    joining: dict[int, CommandSubscribe] = field(default_factory=dict)
    """Consumers that wait to join, for the end of a seek or until the broker has searched for a rival."""
    pending_publishes: int = 0
    """Entries received whose receipt was not sent yet (PR-15)."""
    pending_publish_bytes: int = 0
    throttles: int = 0
    """Publish rates that hold back entries of the session (PR-14)."""
    alive_waiters: list[Callable[[bool], None]] = field(default_factory=list)
    """Calls that wait for the result of a liveness check."""

    def note_dropped(self, producer_id: int) -> None:
        """Notes that the broker closed a producer (A13). The one of the oldest note leaves where there are very many:
        its client has had time to notice."""
        dropped = self.dropped_producers
        dropped.pop(producer_id, None)
        if len(dropped) >= MOST_DROPPED_PRODUCERS:
            del dropped[next(iter(dropped))]
        dropped[producer_id] = None

    @property
    def host(self) -> str:
        """Address of the client without its port."""
        return self.peer.rpartition(":")[0]
