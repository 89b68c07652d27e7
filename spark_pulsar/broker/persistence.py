"""What a persistence policy means on one disk.

Apache Pulsar accepts any policy and then cannot make a topic that wants more bookies than there are; so does this
broker, at once and with a reason. A topic that exists goes on with its one copy. `managedLedgerMaxMarkDeleteRate`, the
most often that Apache Pulsar stores a cursor without being asked, needs nothing here: acks of all cursors share a write
every 100 ms (CUR-4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass
