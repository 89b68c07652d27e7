"""Records of documents: small JSON texts by kind and name. Topic policies, tenants and clusters are kept so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from .base import DeclaredRecord, Record
from .codec import TEXT

if TYPE_CHECKING:
    from spark_pulsar.ledger.state.durable_state import DurableState

CLUSTERS: Final = "clusters"
TENANTS: Final = "tenants"
TOPIC_POLICIES: Final = "topic_policies"
"""By the full name of a topic, for all its partitions."""
GLOBAL_TOPIC_POLICIES: Final = "global_topic_policies"
"""The same, as set for all clusters (`isGlobal=true`)."""
KINDS: Final = (CLUSTERS, TENANTS, TOPIC_POLICIES, GLOBAL_TOPIC_POLICIES)


@dataclass(frozen=True, slots=True)
class DocumentSet(DeclaredRecord):
    """The document of this kind (one of `KINDS`) and name is this text."""

    kind: str
    name: str
    text: str
    TYPE: ClassVar[int] = 40
    LAYOUT: ClassVar = (("kind", TEXT), ("name", TEXT), ("text", TEXT))


@dataclass(frozen=True, slots=True)
class DocumentDeleted(DeclaredRecord):
    """There is no document of this kind and name; nothing happens when there was none."""

    kind: str
    name: str
    TYPE: ClassVar[int] = 41
    LAYOUT: ClassVar = (("kind", TEXT), ("name", TEXT))


def _set(state: DurableState, record: DocumentSet) -> None:
    state.documents.setdefault(record.kind, {})[record.name] = record.text
    state.dirty["documents"].add((record.kind, record.name))


def _deleted(state: DurableState, record: DocumentDeleted) -> None:
    if state.documents.get(record.kind, {}).pop(record.name, None) is not None:
        state.dirty["documents"].add((record.kind, record.name))


TRANSITIONS: Final[dict[type[Record], Callable[[DurableState, Any], None]]] = {
    DocumentSet: _set,
    DocumentDeleted: _deleted,
}
"""What each record does to the state."""
