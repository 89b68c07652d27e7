"""Changes between Apache Pulsar 4.0.8 and newer versions that tests see: one table, by rule of docs/rules.md.

Our broker follows 4.0.8, unless a newer version mended a fault of it: then it follows that one (`ours`). A test
checks what the broker has: `404 if broker.has(changes.NO_FIRST_PATHS) else 200`. The row of each rule names the
version and the change; `tests/architecture/test_rules.py` proves that it does.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """Something that Apache Pulsar does from a version on."""

    rule: str
    """Id of its row in docs/rules.md."""
    ours: bool = False
    """Our broker does so, too."""
    since: str = "4.2.4"
    """First version of the suites that does so; the row names it."""


NO_FIRST_PATHS = Change("T-12")
"""The paths of the admin API's first version are gone (`/admin/clusters`)."""
ONE_ROLE = Change("AU-2")
"""A list of roles in a token is refused."""
EMPTY_IS_TOMBSTONE = Change("CMP-C1", ours=True)
"""An empty payload is a tombstone where its producer leaves out the size."""
MISSING_NAMESPACE = Change("ADM-64", ours=True)
"""Clearing the backlog of a namespace that does not exist is 404."""
EMPTY_IS_200 = Change("ADM-50")
"""Bookie affinity that is not set is answered 200 with no content, not 204."""
OF_GROUPS = Change("ADM-57")
"""Groups of namespaces that are not set are answered 200 with no content, and an empty one has another text."""
QUOTA_OF_ANY_BUNDLE = Change("ADM-6")
"""Resource quotas of namespaces that do not exist are those of the default."""
HEALTH_OF_ANY_TOPIC = Change("ADM-7")
"""A health check takes any version of its topic."""
MARKERS_COUNTED = Change("ADM-73", ours=True)
"""An analyzed backlog counts markers apart from messages."""
INHERITED_CONFIGURATIONS = Change("ADM-52")
"""Extra configurations of a namespace's offload policies go into those of a topic that has none."""
MARK_DELETE_MOVES = Change("TRIM-2")
"""The mark-delete position of a subscription that has read everything moves into the newest ledger."""
NO_ACK_RATE = Change("ST-7")
"""`messageAckRate` of a consumer stays 0."""
ALL_SPARED = Change("SUB-7")
"""A subscription counts as one without a backlog unless `cacheEvictionByExpectedReadCount=false`."""
ENCRYPTED_IS_MEMBER = Change("WS-10")
"""An encryption context has the member `encrypted`."""
TEXTS_KEEP_OPEN = Change("WS-11")
"""A text that is no command leaves the WebSocket open, unless it has a message id that cannot be read."""
