"""Paths of the admin API: those of its first version, and names in paths, decoded as Apache Pulsar decodes them (T-9,
T-10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote, unquote_plus

from spark_pulsar.broker.topics import name_limits
from spark_pulsar.model.errors import InvalidTopicName
from spark_pulsar.model.names import TopicName

from .refusals import Refused

OLD_PATHS: Final = {
    "admin/clusters": "admin/v2/clusters",
    "admin/clusters/{cluster}": "admin/v2/clusters/{cluster}",
    "admin/properties": "admin/v2/tenants",
    "admin/properties/{tenant}": "admin/v2/tenants/{tenant}",
    "admin/namespaces/{tenant}": "admin/v2/namespaces/{tenant}",
    "admin/brokers/health": "admin/v2/brokers/health",
    "admin/brokers/configuration": "admin/v2/brokers/configuration",
    "admin/brokers/{cluster}": "admin/v2/brokers/{cluster}",
    "admin/broker-stats/metrics": "admin/v2/broker-stats/metrics",
    "admin/broker-stats/destinations": "admin/v2/broker-stats/topics",
}
"""Old path → path of today, which has the same answer to GET. Names with a cluster in them are not served (TN-3)."""


DOTS: Final = {".;": ".", "..;": ".."}
"""Names of dots as a browser can send them: it takes `.` and `..` for steps in the path, escaped or not, but not with
a parameter of the segment, which is empty here. A semicolon that belongs to a name is sent as `%3B`."""


def parts_of(pattern: Sequence[str], segments: Sequence[str], raw_segments: Sequence[str]) -> dict[str, str]:
    """Returns the named parts of a path that fits a pattern. Java's library writes a space in a topic's name as +."""
    wanted = zip(pattern, segments, raw_segments, strict=True)
    return {
        name[1:-1]: unquote_plus(raw) if name == "{topic}" else segment
        for name, segment, raw in wanted
        if name.startswith("{")
    }


def topic_name(domain: str, tenant: str, namespace: str, local: str) -> TopicName:
    """Parses the name in a path; 412 when it is none."""
    if len(local) > name_limits.MAX_TOPIC_NAME_LENGTH:
        raise Refused(412, name_limits.too_long("Topic name", len(local), name_limits.MAX_TOPIC_NAME_LENGTH))
    try:
        return TopicName.parse(f"{domain}://{tenant}/{namespace}/{local}")
    except InvalidTopicName as error:
        raise Refused(412, "Topic name is not valid") from error


def segments_of(raw_path: str) -> tuple[list[str], list[str]]:
    """Returns the segments of a path as they are escaped, and decoded once (T-8). Slashes at the end mean nothing."""
    raw = raw_path.partition("?")[0].removeprefix("/").rstrip("/").split("/")
    raw = [DOTS.get(segment, segment) for segment in raw]
    return raw, [unquote(segment) for segment in raw]
