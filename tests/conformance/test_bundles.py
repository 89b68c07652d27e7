"""Bundles of namespaces: making, splitting, and what is done to one of them."""

from __future__ import annotations

import itertools
import zlib
from typing import Any

import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.test_namespaces import fresh, reason

QUARTERS = ["0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff"]


@pytest.fixture
def namespace(broker: Broker) -> str:
    """The name of a namespace of the test's own."""
    name = broker.namespace()
    return name


def edges(broker: Broker, namespace: str) -> list[str]:
    found = broker.rest("GET", f"/admin/v2/namespaces/{namespace}/bundles")[1]
    assert found["numBundles"] == len(found["boundaries"]) - 1
    return list(found["boundaries"])


@pytest.mark.parametrize(
    ("bundles", "made"),
    [
        ({"boundaries": ["0x00000000", "0x30000000", "0xffffffff"], "numBundles": 7}, ["0x30000000"]),
        ({"boundaries": ["0x0", "0x90000000", "0x30000000", "0xFFFFFFFF"], "numBundles": 1}, QUARTERS[:0]),
        ({"boundaries": ["0x00000000", "0x30000000", "0xffffffff"]}, QUARTERS[1:-1]),
        ({"boundaries": [], "numBundles": 2}, ["0x80000000"]),
        ({"numBundles": 3}, ["0x55555555", "0xaaaaaaaa"]),
        ({"numBundles": 1}, []),
        ({"numBundles": -1}, QUARTERS[1:-1]),
    ],
)
def test_a_namespace_is_made_with_bundles(broker: Broker, bundles: dict[str, Any], made: list[str]) -> None:
    # covers ADM-60
    name = broker.namespace({"bundles": bundles})
    wanted = made or (["0x30000000", "0x90000000"] if len(bundles.get("boundaries", ())) == 4 else [])
    assert edges(broker, name) == ["0x00000000", *wanted, "0xffffffff"]


def test_bundles_have_all_hashes_and_the_smallest_is_not_split(broker: Broker) -> None:
    # covers ADM-61, ADM-60
    path = f"/admin/v2/namespaces/public/{fresh('ns')}"
    bundles = {"boundaries": ["0x30000000", "0xffffffff"], "numBundles": 1}
    assert reason(broker.rest("PUT", path, {"bundles": bundles})) == (
        400,
        "Input bundles do not cover the whole hash range. first:0x30000000, last:0xffffffff",
    )
    name = f"public/{fresh('ns')}"
    bundles = {"boundaries": ["0x00000000", "0x00000001", "0xffffffff"], "numBundles": 2}
    assert broker.rest("PUT", f"/admin/v2/namespaces/{name}", {"bundles": bundles})[0] == 204
    refused = broker.rest("PUT", f"/admin/v2/namespaces/{name}/0x00000000_0x00000001/split")
    assert reason(refused) == (412, "Split bundle failed due to invalid request")


def test_a_bundle_is_split(broker: Broker, namespace: str) -> None:
    # covers ADM-61
    path = f"/admin/v2/namespaces/{namespace}"
    assert edges(broker, namespace) == QUARTERS
    assert broker.rest("PUT", f"{path}/0x00000000_0x40000000/split") == (204, "")
    assert broker.rest("PUT", f"{path}/0xc0000000_0xffffffff/split?unload=true") == (204, "")
    split = ["0x00000000", "0x20000000", *QUARTERS[1:-1], "0xdfffffff", "0xffffffff"]
    assert edges(broker, namespace) == split
    assert broker.rest("GET", path)[1]["bundles"] == {"boundaries": split, "numBundles": 6}
    given = f"{path}/0x80000000_0xc0000000/split?splitAlgorithmName=specified_positions_divide"
    assert reason(broker.rest("PUT", given)) == (
        412,
        "With specified_positions_divide split algorithm, splitBoundaries must not be empty",
    )
    assert broker.rest("PUT", given, [5]) == (204, "")
    assert edges(broker, namespace) == split
    assert broker.rest("PUT", given, ["x"])[0] == 400
    assert broker.rest("PUT", given, [0xA0000000]) == (204, "")  # it has no two topics
    assert edges(broker, namespace) == split


def test_what_is_no_bundle_is_not_split(broker: Broker, namespace: str) -> None:
    # covers ADM-61
    path = f"/admin/v2/namespaces/{namespace}"
    for name, why in (
        ("zz", "Invalid bundle range: zz"),
        ("0x12345678_0x40000000", f"Cannot find bundle {namespace}/0x12345678_0x40000000 in the bundles list"),
        (
            "0x00000000_0x50000000",
            f"Invalid upper boundary for bundle {namespace}/0x00000000_0x50000000. "
            f"Expected upper boundary of {namespace}/0x00000000_0x40000000",
        ),
    ):
        assert reason(broker.rest("PUT", f"{path}/{name}/split")) == (412, why)
    assert reason(broker.rest("PUT", f"{path}/0x00000000_0x40000000/split?splitAlgorithmName=nope")) == (
        412,
        "Unsupported namespace bundle split algorithm, supported algorithms are [range_equally_divide, "
        "topic_count_equally_divide, specified_positions_divide, flow_or_qps_equally_divide]",
    )
    assert reason(broker.rest("PUT", f"{path}/HOT/split")) == (404, "Bundle range HOT not found")
    assert reason(broker.rest("PUT", f"{path}x/0x00000000_0x40000000/split")) == (404, "Namespace not found")
    assert edges(broker, namespace) == QUARTERS


def test_a_bundle_is_split_between_its_topics(broker: Broker) -> None:
    # covers ADM-61, ADM-62
    name = broker.namespace({"bundles": {"numBundles": 1}})
    path = f"/admin/v2/namespaces/{name}/0x00000000_0xffffffff"
    topics = [f"persistent://{name}/t{number}" for number in range(6)]
    for topic in topics:
        assert broker.rest("PUT", topic_path(topic))[0] == 204
    shown = broker.rest("GET", f"{path}/topicHashPositions")[1]
    assert shown["namespace"] == name
    assert shown["bundle"] == "0x00000000_0xffffffff"
    places = {topic: place for topic, place in shown["topicHashPositions"].items() if "/__" not in topic}
    assert places == {topic: zlib.crc32(topic.encode()) for topic in topics}
    one = broker.rest("GET", f"{path}/topicHashPositions?topics={topics[2]}&topics=none")[1]["topicHashPositions"]
    assert one == {topics[2]: places[topics[2]]}
    ordered = sorted(shown["topicHashPositions"].values())
    start, end = ordered[len(ordered) // 2 - 1], ordered[len(ordered) // 2]
    assert broker.rest("PUT", f"{path}/split?splitAlgorithmName=topic_count_equally_divide") == (204, "")
    middle = f"0x{start + (end - start) // 2:08x}"
    assert edges(broker, name) == ["0x00000000", middle, "0xffffffff"]
    path = f"/admin/v2/namespaces/{name}/{middle}_0xffffffff"
    given = f"{path}/split?splitAlgorithmName=specified_positions_divide"
    assert broker.rest("PUT", given, [0xFFFFFFF0, 5, 0xFFFFFFE0]) == (204, "")
    assert edges(broker, name) == ["0x00000000", middle, "0xffffffe0", "0xfffffff0", "0xffffffff"]


def test_what_is_done_to_one_bundle(broker: Broker, namespace: str) -> None:
    # covers ADM-62
    path = f"/admin/v2/namespaces/{namespace}"
    topics = [f"persistent://{namespace}/t{number}" for number in range(8)]
    for topic in topics:
        assert broker.rest("PUT", topic_path(topic))[0] == 204
        assert broker.rest("PUT", f"{topic_path(topic)}/subscription/s")[0] == 204
    live = f"non-persistent://{namespace}/live"
    assert broker.rest("PUT", topic_path(live))[0] == 204
    used = 0
    for low, high in itertools.pairwise(QUARTERS):
        inside = {each for each in topics if int(low, 16) <= zlib.crc32(each.encode()) < int(high, 16)}
        is_live = int(low, 16) <= zlib.crc32(live.encode()) < int(high, 16)
        shown = broker.rest("GET", f"/admin/v2/non-persistent/{namespace}/{low}_{high}")
        if inside or is_live or broker.kind == "ours":  # Apache Pulsar owns no bundle that nobody has used
            assert shown == (200, [live] if is_live else [])
        if not inside:
            continue
        used += 1
        refused = broker.rest("DELETE", f"{path}/{low}_{high}")
        assert reason(refused) == (409, "Cannot delete non empty bundle")
        assert broker.rest("POST", f"{path}/{low}_{high}/unsubscribe/none") == (204, "")
        assert broker.rest("POST", f"{path}/{low}_{high}/unsubscribe/s") == (204, "")
        for topic in inside:
            assert broker.rest("GET", f"{topic_path(topic)}/subscriptions") == (200, [])
    assert used > 1
    assert reason(broker.rest("POST", f"{path}/zz/unsubscribe/s")) == (412, "Invalid bundle range: zz")
    assert reason(broker.rest("DELETE", f"{path}/zz")) == (412, "Invalid bundle range: zz")
