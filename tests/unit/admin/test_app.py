"""The admin API over a core in memory: paths, bodies, statuses."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from spark_pulsar.admin.app import build_app, find_route
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.turn.events import Requested
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.wire.pulsar_api_pb2 import CommandSubscribe
from tests.unit.broker.world import TOPIC, World, entry

BASE = "/admin/v2/persistent/public/default"


class Gate:
    """The core of a world, as the server shows it to the admin API."""

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def core(self) -> Core:
        return self._world.core

    def disk_space(self) -> tuple[int, int]:
        return 1000, 400

    def submit(self, request: Callable[[Core], Any]) -> "asyncio.Future[Any]":
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def run(core: Core) -> None:
            try:
                result = request(core)
            except PulsarError as error:
                answer.set_exception(error)
            else:
                core.when_durable(lambda: answer.set_result(result))

        self._world.happen([Requested(run)])
        return answer


def call(
    world: World | None, method: str, path: str, body: bytes = b"", scheme: str = "http", **headers_in: str
) -> tuple[int, dict[str, str], Any]:
    """(status, headers, body as JSON or text) of one request."""
    gate = None if world is None else Gate(world)
    sent: list[Any] = []
    raw, _, query = path.partition("?")
    scope = {"type": "http", "method": method, "path": raw, "raw_path": raw.encode(), "query_string": query.encode()}
    scope |= {"headers": [(name.encode(), value.encode()) for name, value in headers_in.items()]}
    scope |= {"http_version": "1.1", "scheme": scheme, "server": ("x", 80), "client": ("y", 1)}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(build_app(lambda: gate)(scope, receive, send))  # type: ignore[arg-type]
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    content = b"".join(message.get("body", b"") for message in sent[1:])
    is_json = headers.get("content-type") == "application/json"
    return sent[0]["status"], headers, json.loads(content) if is_json else content.decode()


def test_a_foreign_page_cannot_end_or_delete_a_topic() -> None:
    # covers T-25
    world = World()
    assert call(world, "PUT", f"{BASE}/t")[0] == 204
    status, _, answer = call(world, "POST", f"{BASE}/t/terminate", host="localhost:8080", origin="http://evil.example")
    assert (status, "http://evil.example" in answer["reason"]) == (403, True)
    rebound = {"host": "evil.example:8080", "origin": "http://evil.example:8080"}
    assert call(world, "DELETE", f"{BASE}/t", b"", **rebound)[0] == 403
    assert not next(iter(world.state.topics.values())).is_terminated
    assert call(world, "POST", f"{BASE}/t/terminate", host="broker:8080")[0] == 200


@pytest.mark.parametrize("body", [b"3", b'"3"', b'{"partitions":3,"properties":null}', b" 3\n"])
def test_partitioned_topic_from_any_form_of_body(body: bytes) -> None:
    # covers TN-8, T-12, T-16
    world = World()
    assert call(world, "PUT", f"{BASE}/t/partitions", body)[0] == 204
    assert call(world, "GET", f"{BASE}/t/partitions")[2] == {"partitions": 3, "deleted": False}
    assert len(world.state.topics) == 3


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "reason"),
    [
        ("PUT", "/t/partitions", b"", 400, "partitions: want a number"),
        ("PUT", "/t/partitions", b"{", 400, "The request body is no JSON"),
        ("PUT", "/t/partitions", b"11", 406, "Number of partitions should be less than or equal to 10"),
        ("POST", "/parted/partitions", b"11", 422, "the maximum partitions per topic 10."),
        ("GET", "/none/partitions", b"", 404, f"Topic {TOPIC[:-1]}none not found"),
        ("DELETE", "/none/partitions", b"", 404, f"Topic {TOPIC[:-1]}none not found."),
        ("DELETE", "/plain/partitions", b"", 409, "is a non-partitioned topic"),
        ("DELETE", "/parted", b"", 409, "is a partitioned topic"),
        ("DELETE", "/none", b"", 404, "not found"),
        ("PUT", "/plain", b"", 409, "This topic already exists"),
        ("PUT", "/f-partition-0", b"", 412, 'Can\'t create topic f-partition-0 with "-partition-"'),
        ("PUT", "/parted-partition-7", b"", 412, "a number smaller than number of partition"),
        ("GET", "/none/stats", b"", 404, "not found"),
        ("GET", "/plain/partitioned-stats", b"", 404, "Partitioned Topic"),
        ("DELETE", "/plain/subscription/none", b"", 404, "Subscription none not found"),
    ],
)
def test_refusals(method: str, path: str, body: bytes, status: int, reason: str) -> None:
    # covers TN-8, ADM-68
    world = World(max_partitions_per_topic=10)
    assert call(world, "PUT", f"{BASE}/plain")[0] == 204
    assert call(world, "PUT", f"{BASE}/parted/partitions", b"2")[0] == 204
    got, headers, answer = call(world, method, BASE + path, body)
    assert (got, headers["content-type"]) == (status, "application/json")
    assert reason in answer["reason"]


def test_growing_and_deleting_partitions() -> None:
    # covers TN-8, PT-7, DUR-7
    world = World()
    call(world, "PUT", f"{BASE}/t/partitions", b'{"partitions":1,"properties":{"k":"v"}}')
    assert call(world, "POST", f"{BASE}/t/partitions", b"1")[0] == 204
    assert call(world, "POST", f"{BASE}/t/partitions", b"3")[0] == 204
    grown = {"partitions": 3, "deleted": False, "properties": {"k": "v"}}
    assert call(world, "GET", f"{BASE}/t/partitions")[2] == grown
    world = world.restart()
    assert len(world.state.topics) == 3, "the answer came when the change was on disk"
    client = world.connect()
    client.open_producer(topic=f"{TOPIC}-partition-1")
    assert call(world, "DELETE", f"{BASE}/t/partitions")[0] == 412
    assert call(world, "DELETE", f"{BASE}/t/partitions?force=true")[0] == 204
    assert world.state.topics == {}
    assert world.state.partitioned == {}


def test_missing_namespace_and_other_domain() -> None:
    world = World()
    missing = "/admin/v2/persistent/public/missing"
    assert call(world, "PUT", f"{missing}/t/partitions", b"2")[::2] == (404, {"reason": "Namespace not found"})
    assert call(world, "GET", missing)[::2] == (404, {"reason": "Namespace does not exist"})
    assert call(world, "GET", "/admin/v2/non-persistent/public/default")[::2] == (200, [])


@pytest.mark.parametrize(
    "query", ["authoritative=true", "applied=true", "isGlobal=false", "authoritative=false&applied=x"]
)
@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", "/t/partitions"), ("GET", ""), ("GET", "/plain/stats"), ("GET", "/plain/subscriptions")],
)
def test_what_clients_add_to_any_query_changes_nothing(method: str, path: str, query: str) -> None:
    # covers T-2, T-11
    world, same = World(), World()
    for each in (world, same):
        assert call(each, "PUT", f"{BASE}/plain")[0] == 204
    body = b"2" if method == "PUT" else b""
    status, _, answer = call(world, method, f"{BASE}{path}?{query}", body)
    assert 200 <= status <= 204
    assert (status, answer) == call(same, method, f"{BASE}{path}", body)[::2]


def test_names_are_decoded_once_and_segment_by_segment() -> None:
    # covers T-8, T-9
    world = World()
    assert call(world, "PUT", f"{BASE}/a%20b%3Fc/partitions", b"1")[0] == 204
    assert list(world.state.partitioned) == ["persistent://public/default/a b?c"]
    assert call(world, "PUT", f"{BASE}/x%2Fy/partitions", b"1")[0] == 412


def test_partitioned_stats_tell_clients_apart_by_their_names() -> None:
    # covers ST-5
    world = World()
    call(world, "PUT", f"{BASE}/p/partitions", b"3")
    client = world.connect()
    joined = [(0, "a", 1), (0, "a", 2), (0, "b", 10), (1, "b", 20), (1, "generated", 300), (1, "a", 4), (2, "b", 40)]
    for number, (partition, name, permits) in enumerate(joined):
        topic = f"persistent://public/default/p-partition-{partition}"
        client.open_consumer(
            "s", number, topic=topic, permits=permits, consumer_name=name, subscription_type=CommandSubscribe.Shared
        )
        client.open_producer(name=f"{name}{number}" if name == "a" else name, topic=topic, producer_id=number)
    stats = call(world, "GET", f"{BASE}/p/partitioned-stats")[2]
    consumers = stats["subscriptions"]["s"]["consumers"]
    assert [(each["consumerName"], each["availablePermits"]) for each in consumers] == [("a", 5), ("a", 302), ("b", 70)]
    assert [each["producerName"] for each in stats["publishers"]] == ["a0", "a1", "b"]


def test_health_metrics_and_paths_that_are_not_there() -> None:
    # covers T-1, T-20, ADM-8
    world = World()
    client = world.connect()
    client.open_producer()
    client.open_consumer()
    client.publish(1, entry("a"))
    text = call(world, "GET", "/metrics")[2]
    labels = f'cluster="standalone",namespace="public/default",topic="{TOPIC}",subscription="s"'
    assert f"pulsar_subscription_back_log{{{labels}}} 1\n" in text
    assert "process_resident_memory_bytes" in text
    status, headers, answer = call(world, "POST", "/admin/v2/brokers/health")
    assert (status, headers["allow"]) == (405, "GET")
    assert answer["reason"]
    assert call(world, "GET", "/admin/v2/bookies/all")[0] == 501
    assert call(None, "GET", "/admin/v2/brokers/health")[0] == 503


def test_topic_that_is_called_like_a_list() -> None:
    assert "PUT" in find_route(["admin", "v2", "persistent", "t", "n", "partitioned"], "PUT")[0]
    assert "GET" in find_route(["admin", "v2", "persistent", "t", "n", "partitioned"], "GET")[0]
    with pytest.raises(Refused):
        find_route(["admin", "v2", "elsewhere"], "GET")


def test_properties_of_a_non_persistent_topic_live_with_it() -> None:
    world, path = World(), BASE.replace("persistent", "non-persistent") + "/n"
    assert call(world, "PUT", path)[0] == 204
    assert call(world, "PUT", f"{path}/properties", b'{"a": "1", "b": "2"}')[0] == 204
    assert call(world, "DELETE", f"{path}/properties?key=a")[0] == 204
    assert call(world, "GET", f"{path}/properties")[::2] == (200, {"b": "2"})


def test_a_non_persistent_topic_needs_no_bookies() -> None:
    world = World()
    body = b'{"bookkeeperEnsemble": 3, "bookkeeperWriteQuorum": 3, "bookkeeperAckQuorum": 3}'
    assert call(world, "POST", "/admin/v2/namespaces/public/default/persistence", body)[0] == 204
    assert call(world, "PUT", f"{BASE}/t")[0] == 500
    for path, count in (("/n", b""), ("/p/partitions", b"2")):
        assert call(world, "PUT", BASE.replace("persistent", "non-persistent") + path, count)[0] == 204


def test_the_page_receives_a_diagnosis() -> None:
    # covers WHY-8
    world = World()
    status, _, findings = call(world, "GET", f"/page/why?topic={TOPIC}&subscription=s&zone=Europe/Berlin")
    assert status == 200
    assert [finding["cause"] for finding in findings] == ["no-topic"]
    assert findings[0]["state"] == "cause"
    assert call(world, "GET", "/page/why?topic=a//b")[0] == 412
    assert call(None, "GET", f"/page/why?topic={TOPIC}")[0] == 503
