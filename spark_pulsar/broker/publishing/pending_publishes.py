"""Back-pressure: sessions are not read while too many of their entries wait (PR-14, PR-15). What waits keeps its order,
which `storing_entries` gives it (PR-9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.connections import handshake
from spark_pulsar.broker.turn.effects import PauseReading

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.session import Session

_RESUME_SHARE: Final = 2
"""Divisor of the limit to which pending publishes must sink before a paused session is read again."""


def note_pending(core: Core, session: Session, entries: int, size_bytes: int) -> None:
    """Adds entries that wait for the disk; at the limits the session is not read any more (PR-15)."""
    session.pending_publishes += entries
    session.pending_publish_bytes += size_bytes
    core.pending_publish_bytes += size_bytes
    if (
        session.pending_publishes >= core.config.max_pending_publishes_per_session
        or core.pending_publish_bytes >= core.config.max_pending_publish_bytes
    ):
        _pause(core, session)


def settle_pending(core: Core, session: Session, entries: int, size_bytes: int) -> None:
    """Takes off entries that are on disk: the session, and others that waited for memory, may be read again."""
    session.pending_publishes -= entries
    session.pending_publish_bytes -= size_bytes
    core.pending_publish_bytes -= size_bytes
    if core.paused_sessions:
        _resume_some(core)


def throttle(core: Core, session: Session) -> None:
    """Stops reading a session whose entries are held back by a rate, until `unthrottle` was called as often."""
    session.throttles += 1
    if session.throttles == 1:
        for topic in {producer.topic for producer in session.producers.values()}:
            topic.publish_limited_times += 1
    _pause(core, session)


def unthrottle(core: Core, session: Session) -> None:
    """Takes off one rate that held back entries of the session."""
    session.throttles -= 1
    if core.paused_sessions:
        _resume_some(core)


def _pause(core: Core, session: Session) -> None:
    if not session.reading_paused and session.session_id in core.sessions:
        session.reading_paused = True
        core.paused_sessions.add(session.session_id)
        core.effects.append(PauseReading(session.session_id))


def _resume_some(core: Core) -> None:
    if core.pending_publish_bytes > core.config.max_pending_publish_bytes // _RESUME_SHARE:
        return
    limit = core.config.max_pending_publishes_per_session // _RESUME_SHARE
    for session_id in list(core.paused_sessions):
        paused = core.sessions[session_id]
        if paused.pending_publishes <= limit and not paused.throttles:
            handshake.resume_reading(core, paused)
