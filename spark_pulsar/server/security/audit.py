"""The audit log: a line for who may do what, and who may not, without a secret (SEC-20, AU-12)."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Final

from spark_pulsar.server.log.hosts import of_host

if TYPE_CHECKING:
    from spark_pulsar.broker.turn.effects import WriteAudit

MAX_TEXT_LENGTH: Final = 500
"""Characters of each text of a line: clients choose most of them."""

_LOG: Final = logging.getLogger("spark_pulsar.audit")


def write_audit(entry: WriteAudit) -> None:
    """Writes a line: the outcome, then `name="text"` for address, role, role behind a proxy, action, resource and the
    reason of a refusal, those that are known. Texts are ASCII without control characters, escaped as in JSON, so that
    no client can forge a line."""
    parts = ["allowed" if entry.is_allowed else "refused", f"client={_quoted(entry.peer)}"]
    if entry.role is not None:
        parts.append(f"role={_quoted(entry.role)}")
    if entry.original is not None:
        parts.append(f"original={_quoted(entry.original)}")
    parts += [f"action={_quoted(entry.action)}", f"resource={_quoted(entry.resource)}"]
    if entry.reason:
        parts.append(f"reason={_quoted(entry.reason)}")
    if entry.is_allowed:
        _LOG.info(" ".join(parts))
    else:  # without a role it is a stranger's
        _LOG.warning(" ".join(parts), extra=of_host(entry.peer) if entry.role is None else None)


def _quoted(text: str) -> str:
    if len(text) > MAX_TEXT_LENGTH:
        text = text[:MAX_TEXT_LENGTH] + "..."
    return json.dumps(text).replace("\x7f", "\\u007f")
