"""Records of documents: small JSON texts by kind and name. Topic policies, tenants and clusters are kept so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from .base import DeclaredRecord

CLUSTERS: Final = "clusters"
TENANTS: Final = "tenants"
TOPIC_POLICIES: Final = "topic_policies"
"""Policies by the full name of a topic, for all its partitions."""
GLOBAL_TOPIC_POLICIES: Final = "global_topic_policies"
"""Policies by the full name of a topic, as set for all clusters (`isGlobal=true`)."""
KINDS: Final = (CLUSTERS, TENANTS, TOPIC_POLICIES, GLOBAL_TOPIC_POLICIES)


@dataclass(frozen=True, slots=True)
class DocumentSet(DeclaredRecord):
    """The document of this kind (one of `KINDS`) and name is this text."""

    kind: str
    name: str
    text: str
    TYPE: ClassVar[int] = 40


@dataclass(frozen=True, slots=True)
class DocumentDeleted(DeclaredRecord):
    """There is no document of this kind and name; nothing happens when there was none."""

    kind: str
    name: str
    TYPE: ClassVar[int] = 41
