"""Records of documents: small texts, mostly JSON, by kind and name, such as tenants and policies of topics."""

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
DYNAMIC_CONFIGURATION: Final = "dynamic_configuration"
"""Texts of dynamic configuration keys by their names, which win over `broker.conf` (ADM-1)."""
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
