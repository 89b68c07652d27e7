"""Records of schemas: the versions that the topics of a name (a topic, or a partitioned one with all its partitions)
have, by `tenant/namespace/topic` (SC-1, SC-10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from .base import DeclaredRecord


@dataclass(frozen=True, slots=True)
class SchemaAdded(DeclaredRecord):
    """The topics of this name have one more schema; `kind` is a number of `SchemaType`. The first version is 0, each
    later one the next number."""

    name: str
    version: int
    kind: int
    created_ms: int
    data: bytes
    properties: Mapping[str, str] = field(default_factory=dict)
    TYPE: ClassVar[int] = 110


@dataclass(frozen=True, slots=True)
class SchemasDeleted(DeclaredRecord):
    """All schemas of this name are gone; a mark that they were there takes the next version."""

    name: str
    version: int
    deleted_ms: int
    TYPE: ClassVar[int] = 111


@dataclass(frozen=True, slots=True)
class SchemasForgotten(DeclaredRecord):
    """All schemas of this name are gone, and their versions too: the next one is 0 again. Nothing happens when there
    were none."""

    name: str
    TYPE: ClassVar[int] = 112
