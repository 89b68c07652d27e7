"""Texts by name: policies of namespaces, and documents of several kinds, mostly JSON, such as tenants and policies of
topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from spark_pulsar.ledger.records import DeclaredRecord, InvalidRecord, Record, Table

if TYPE_CHECKING:
    from .durable_state import DurableState

CLUSTERS: Final = "clusters"
TENANTS: Final = "tenants"
TOPIC_POLICIES: Final = "topic_policies"
"""Policies by the full name of a topic, for all its partitions."""
GLOBAL_TOPIC_POLICIES: Final = "global_topic_policies"
"""Policies by the full name of a topic, as set for all clusters (`isGlobal=true`)."""
DYNAMIC_CONFIGURATION: Final = "dynamic_configuration"
"""Texts of dynamic configuration keys by their names, which win over `broker.conf` (ADM-1, ADM-2)."""
RESOURCE_GROUPS: Final = "resource_groups"
"""Rates of resource groups by their names (ADM-5)."""
RESOURCE_QUOTAS: Final = "resource_quotas"
"""Resource quotas of bundles, by `tenant/namespace/bundle`, and the default one, by `default` (ADM-6)."""
FAILURE_DOMAINS: Final = "failure_domains"
"""Failure domains of a cluster, by its name."""
ISOLATION_POLICIES: Final = "isolation_policies"
"""Namespace isolation policies of a cluster, by its name."""
KINDS: Final = (
    CLUSTERS,
    TENANTS,
    TOPIC_POLICIES,
    GLOBAL_TOPIC_POLICIES,
    DYNAMIC_CONFIGURATION,
    RESOURCE_GROUPS,
    RESOURCE_QUOTAS,
    FAILURE_DOMAINS,
    ISOLATION_POLICIES,
)


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


@dataclass(frozen=True, slots=True)
class NamespaceSet(DeclaredRecord):
    """A namespace "tenant/name" exists and has these policies (a JSON object as text)."""

    name: str
    policies: str
    TYPE: ClassVar[int] = 15


@dataclass(frozen=True, slots=True)
class NamespaceDeleted(DeclaredRecord):
    """The namespace is gone."""

    name: str
    TYPE: ClassVar[int] = 16


def _namespace_set(state: DurableState, record: NamespaceSet) -> None:
    state.namespaces[record.name] = record.policies
    state.dirty["namespaces"].add(record.name)


def _namespace_deleted(state: DurableState, record: NamespaceDeleted) -> None:
    if state.namespaces.pop(record.name, None) is None:
        raise InvalidRecord(f"namespace {record.name} does not exist")
    state.dirty["namespaces"].add(record.name)


def _document_set(state: DurableState, record: DocumentSet) -> None:
    state.documents.setdefault(record.kind, {})[record.name] = record.text
    state.dirty["documents"].add((record.kind, record.name))


def _document_deleted(state: DurableState, record: DocumentDeleted) -> None:
    if state.documents.get(record.kind, {}).pop(record.name, None) is not None:
        state.dirty["documents"].add((record.kind, record.name))


def _namespace_values(state: DurableState, name: str) -> tuple[Any, ...] | None:
    policies = state.namespaces.get(name)
    return None if policies is None else (policies,)


def _document_values(state: DurableState, key: tuple[str, str]) -> tuple[Any, ...] | None:
    text = state.documents[key[0]].get(key[1])
    return None if text is None else (text,)


def load_namespaces(state: DurableState, rows: Iterable[tuple[Any, ...]]) -> None:
    """Puts the namespaces of rows in place of those that a new state has."""
    state.namespaces = dict(rows)


def load(state: DurableState, rows: Iterable[tuple[Any, ...]]) -> None:
    """Adds the documents of rows."""
    for kind, name, text in rows:
        state.documents.setdefault(kind, {})[name] = text


TRANSITIONS: Final[Mapping[type[Record], Callable[[DurableState, Any], None]]] = {
    NamespaceSet: _namespace_set,
    NamespaceDeleted: _namespace_deleted,
    DocumentSet: _document_set,
    DocumentDeleted: _document_deleted,
}
"""Effects of the records, by type."""

TABLES: Final = (
    Table("namespaces", 1, ("name TEXT", "policies TEXT"), _namespace_values),
    Table("documents", 2, ("kind TEXT", "name TEXT", "text TEXT"), _document_values),
)
