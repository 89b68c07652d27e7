"""Edges of the bundles of a namespace: which there are, and where one is split (ADM-60, ADM-61)."""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from spark_pulsar.admin.http.answers import whole_number
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.model.policies.json_values import members

DEFAULT_BUNDLES: Final = 4
MAX_BUNDLES: Final = 4096
_LAST: Final = 0xFFFFFFFF

RANGE: Final = "range_equally_divide"
TOPIC_COUNT: Final = "topic_count_equally_divide"
POSITIONS: Final = "specified_positions_divide"
LOAD: Final = "flow_or_qps_equally_divide"
ALGORITHMS: Final = (RANGE, TOPIC_COUNT, POSITIONS, LOAD)


class Bundle(NamedTuple):
    """A range of hashes: from `low`, without `high` unless it is the last one."""

    low: int
    high: int

    @property
    def name(self) -> str:
        """The name in paths: `0xLOW_0xHIGH`."""
        return f"{_text(self.low)}_{_text(self.high)}"

    def has(self, topic: str) -> bool:
        """Returns whether a topic of this full name belongs to the bundle."""
        place = hash_of(topic)
        return self.low <= place < self.high or place == self.high == _LAST


def hash_of(topic: str) -> int:
    """Returns the place of a topic among bundles: the CRC32 of its full name."""
    return zlib.crc32(topic.encode())


def equal_parts(bundles: int) -> list[int]:
    """Returns the edges of `bundles` bundles of one size."""
    return [*(index * ((1 << 32) // bundles) for index in range(bundles)), _LAST]


def read_bundles(value: object) -> dict[str, Any]:
    """Reads the bundles that a namespace is to be made with; empty is the default."""
    body = members(value, "bundles")
    number = whole_number(body.get("numBundles") or 0, "numBundles")
    wanted = body.get("boundaries")
    if number <= 0:
        return {}
    if not wanted:
        check_number(number)
        return {"numBundles": number}
    if not isinstance(wanted, list):
        raise Refused(400, f"boundaries: want a list of texts, got {wanted!r:.80}")
    check_number(len(wanted) - 1)
    edges = sorted({_edge(edge) for edge in wanted})
    if len(edges) < 2 or edges[0] != 0 or edges[-1] != _LAST:
        raise Refused(
            400,
            f"Input bundles do not cover the whole hash range. first:{_text(edges[0])}, last:{_text(edges[-1])}",
        )
    return stored_of(edges)


def check_number(bundles: int) -> None:
    """Refuses more bundles than a namespace may have."""
    if bundles > MAX_BUNDLES:
        raise Refused(412, f"Too many bundles: at most {MAX_BUNDLES}")


def stored_of(edges: Sequence[int]) -> dict[str, Any]:
    """Returns the bundles with these edges as a namespace's policies hold them."""
    return {"boundaries": [_text(edge) for edge in edges], "numBundles": len(edges) - 1}


def edges_of(stored: Mapping[str, Any]) -> list[str]:
    """Returns the edges of the bundles of a namespace with these policies."""
    bundles = stored.get("bundles", {})
    edges = bundles.get("boundaries")
    return list(edges) if edges else [_text(edge) for edge in equal_parts(bundles.get("numBundles", DEFAULT_BUNDLES))]


def bundle_of(edges: list[str], topic: str) -> str:
    """Returns the name of the bundle of a topic."""
    place = min(bisect_right(edges, _text(hash_of(topic))), len(edges) - 1)
    return f"{edges[place - 1]}_{edges[place]}"


def find_bundle(edges: list[str], namespace: str, name: str) -> Bundle:
    """Returns a bundle by its name; 412 for edges at which the namespace is not divided."""
    low, separator, high = name.partition("_")
    if not separator or not all(part.startswith("0x") for part in (low, high)):
        raise Refused(412, f"Invalid bundle range: {name}")
    known = dict(pairwise(edges))
    if low not in known:
        raise Refused(412, f"Cannot find bundle {namespace}/{name} in the bundles list")
    if high != known[low]:
        expected = f"{namespace}/{low}_{known[low]}"
        raise Refused(
            412, f"Invalid upper boundary for bundle {namespace}/{name}. Expected upper boundary of {expected}"
        )
    return Bundle(int(low, 16), int(high, 16))


def largest(edges: list[str], topics: Iterable[str]) -> Bundle:
    """Returns the bundle with the most topics; of several, the last one."""
    bundles = [Bundle(int(low, 16), int(high, 16)) for low, high in pairwise(edges)]
    counts = dict.fromkeys((bundle.name for bundle in bundles), 0)
    for topic in topics:
        counts[bundle_of(edges, topic)] += 1
    return max(reversed(bundles), key=lambda bundle: counts[bundle.name])


def split_positions(bundle: Bundle, algorithm: str, topics: Sequence[str], wanted: object) -> list[int]:
    """Returns the edges that a split adds to a bundle with these topics; none where there is nothing to split."""
    if algorithm not in ALGORITHMS:
        raise Refused(
            412,
            f"Unsupported namespace bundle split algorithm, supported algorithms are [{', '.join(ALGORITHMS)}]",
        )
    if algorithm == LOAD:
        raise Refused(412, f"With {LOAD} a load balancer splits bundles, and one broker has none")
    if algorithm == POSITIONS:
        places = _specified(bundle, wanted)
        return places if len(topics) > 1 else []
    if algorithm == TOPIC_COUNT:
        places = sorted(map(hash_of, topics))
        if len(places) < 2:
            return []
        start, end = places[len(places) // 2 - 1], places[len(places) // 2]
    else:
        start, end = bundle
        if end - start < 2:
            raise Refused(412, "Split bundle failed due to invalid request")
    middle = start + (end - start) // 2
    return [middle] if bundle.low < middle < bundle.high else []


def _specified(bundle: Bundle, wanted: object) -> list[int]:
    if not wanted:
        raise Refused(412, f"With {POSITIONS} split algorithm, splitBoundaries must not be empty")
    if not isinstance(wanted, list):
        raise Refused(400, f"splitBoundaries: want a list of numbers, got {wanted!r:.80}")
    check_number(len(wanted))
    places = {whole_number(boundary, "splitBoundaries") for boundary in wanted}
    return sorted(place for place in places if bundle.low < place < bundle.high)


def _edge(text: object) -> int:
    try:
        edge = int(str(text), 0)
    except ValueError as error:
        raise Refused(400, f"boundaries: {text!r:.80} is no number") from error
    if not 0 <= edge <= _LAST:
        raise Refused(400, f"boundaries: want numbers from 0x00000000 to 0xffffffff, got {text!r:.80}")
    return edge


def _text(edge: int) -> str:
    return f"0x{edge:08x}"
