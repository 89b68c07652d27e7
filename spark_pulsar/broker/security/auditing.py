"""Lines of the audit log that the rules of the broker write (SEC-20)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.broker.turn.effects import WriteAudit

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.session import Session


def audit(core: Core, session: Session, action: str, resource: str, *, is_allowed: bool, reason: str = "") -> None:
    """Writes that the role of a session may do `action` with `resource`, or may not for `reason`, which holds no secret
    (AU-12). Callers write refusals (SEC-64), and the first accepted authentication of a connection."""
    if core.config.audit_log:
        principal = session.principal
        core.effects.append(
            WriteAudit(session.peer, principal.role, principal.original, action, resource, is_allowed, reason)
        )
