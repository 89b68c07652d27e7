"""Topic names: parsed once at the edge, well-formed ever after (TN-1 ... TN-5)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from spark_pulsar.model.errors import InvalidTopicName
from spark_pulsar.model.limits import MAX_PARTITION_INDEX

PERSISTENT: Final = "persistent"
NON_PERSISTENT: Final = "non-persistent"
PUBLIC_TENANT: Final = "public"
DEFAULT_NAMESPACE: Final = "default"

_ENTITY: Final = re.compile(r"[A-Za-z0-9_\-=:.]+")
_PARTITION: Final = re.compile(r"(.+)-partition-(0|[1-9][0-9]*)", re.DOTALL)
PARTITION_MARK: Final = "-partition-"
REPLICATOR_PREFIX: Final = "pulsar.repl"
"""Beginning of the names of replicators: their producers, and the cursors by which they read."""
PENDING_ACKS_SUFFIX: Final = "__transaction_pending_ack"
"""End of the names of Apache Pulsar's topics of pending acknowledgements."""
_SYSTEM_NAMESPACE: Final = "://pulsar/system/"
_SYSTEM_LOCALS: Final = frozenset({"__change_events", "__transaction_buffer_snapshot"})


@dataclass(frozen=True, slots=True, order=True)
class TopicName:
    """One topic, or one partition of a topic. Made by `parse`, or by `at_partition` and `base` of another name."""

    domain: str
    tenant: str
    namespace: str
    local: str

    @classmethod
    def parse(cls, text: str) -> TopicName:
        """Returns the topic that `text` names; InvalidTopicName when it names none (TN-2).

        `a` is `persistent://public/default/a`; `t/n/a` is `persistent://t/n/a`; with a domain all three parts must be
        there. The four-part form with a cluster (v1) is refused.
        """
        domain, separator, rest = text.partition("://")
        if not separator:
            domain, rest = PERSISTENT, text
            if "/" not in text:
                rest = f"{PUBLIC_TENANT}/{DEFAULT_NAMESPACE}/{text}"
        if domain not in (PERSISTENT, NON_PERSISTENT):
            raise InvalidTopicName(f"Invalid topic name: {text}: unknown domain {domain!r}")
        parts = rest.split("/")
        if len(parts) == 4 and separator:
            raise InvalidTopicName(f"Invalid topic name: {text}: names with a cluster (v1) are not supported")
        if len(parts) != 3:
            raise InvalidTopicName(
                f"Invalid topic name: {text}: want <topic>, <tenant>/<namespace>/<topic> or "
                "<domain>://<tenant>/<namespace>/<topic>"
            )
        tenant, namespace, local = parts
        check_entity(tenant)
        check_entity(namespace)
        if not local.strip():
            raise InvalidTopicName(f"Invalid topic name: {text}: the local name is blank")
        return cls(domain, tenant, namespace, local)

    @property
    def full(self) -> str:
        """The full text, `domain://tenant/namespace/local`."""
        return f"{self.domain}://{self.tenant}/{self.namespace}/{self.local}"

    def __str__(self) -> str:
        return self.full

    @property
    def namespace_name(self) -> str:
        """`tenant/namespace`."""
        return f"{self.tenant}/{self.namespace}"

    @property
    def is_persistent(self) -> bool:
        """Returns whether entries of this topic are stored."""
        return self.domain == PERSISTENT

    @property
    def partition(self) -> int:
        """The index when the name ends in `-partition-<index>`, written as `at_partition` does, else -1 (TN-5).

        `x-partition-00` and `x-partition-y-3` are no partitions; Apache Pulsar 4.0.8 delivers from them with -1 too.
        """
        return _split_partition(self.local)[1]

    @property
    def base(self) -> TopicName:
        """The partitioned topic that this partition belongs to; itself when it is no partition."""
        local, index = _split_partition(self.local)
        return self if index < 0 else TopicName(self.domain, self.tenant, self.namespace, local)

    def at_partition(self, index: int) -> TopicName:
        """Returns the partition `index` of this topic. Of a base name; a partition has no partitions."""
        if index < 0:
            raise InvalidTopicName(f"Invalid topic name: {self.full} has no partition {index}")
        return TopicName(self.domain, self.tenant, self.namespace, f"{self.local}-partition-{index}")

    @property
    def is_system(self) -> bool:
        """Returns whether the name is reserved for Pulsar; users may not create it (TN-14)."""
        local = _split_partition(self.local)[0]
        return (
            local in _SYSTEM_LOCALS
            or local.endswith(PENDING_ACKS_SUFFIX)
            or (self.tenant == "pulsar" and self.namespace == "system")
        )

    @property
    def is_hidden(self) -> bool:
        """Returns whether topic lists leave this name out by default: system topics and everything that begins with
        `__`."""
        return self.local.startswith("__") or self.is_system


def without_partition(full: str) -> str:
    """Returns the full name of the partitioned topic that a partition belongs to; of any other topic its own."""
    if PARTITION_MARK not in full:
        return full
    start = full.rfind("/") + 1
    return full[:start] + _split_partition(full[start:])[0]


def is_hidden(full: str) -> bool:
    """Returns whether topic lists leave out a topic's full name by default, see `TopicName.is_hidden`."""
    if "__" not in full and _SYSTEM_NAMESPACE not in full:
        return False  # as nearly all are
    return TopicName.parse(full).is_hidden


def check_entity(text: str) -> None:
    """InvalidTopicName unless `text` may name a tenant or a namespace (TN-4)."""
    if not _ENTITY.fullmatch(text):
        raise InvalidTopicName(f"Invalid topic name: Invalid named entity: {text}")


def split_namespace(text: str) -> tuple[str, str]:
    """`tenant/namespace` as its two parts; InvalidTopicName when it is not of that form."""
    tenant, separator, namespace = text.partition("/")
    if not separator:
        raise InvalidTopicName(f"Invalid namespace: {text}: want <tenant>/<namespace>")
    check_entity(tenant)
    check_entity(namespace)
    return tenant, namespace


def _split_partition(local: str) -> tuple[str, int]:
    """(local name of the base, index), index -1 when `local` is not a partition's name."""
    match = _PARTITION.fullmatch(local)
    if match is None or len(match[2]) > 19 or int(match[2]) > MAX_PARTITION_INDEX:
        return local, -1
    return match[1], int(match[2])
