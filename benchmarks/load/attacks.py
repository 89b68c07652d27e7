"""Costly requests that a client or a program of the admin API can make with little effort."""

import http.client
import itertools
import json
import selectors
import socket
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from load import frames, workloads
from load.singing import connect, read_frame
from spark_pulsar.wire import pulsar_api_pb2 as api

CONNECTIONS = 200
TIMEOUT_S = 300
MANY, FEW = "public/many", "public/few"
WIDE, BACKLOG, CROWD = "public/default/wide", "public/default/backlog", "public/default/crowd"
PARTITIONS = 2_000
BACKLOG_ENTRIES = 300_000
SUBSCRIPTION = "s"
CLIENTS = 1_000
"""Subscriptions of one topic, and consumers of one of them."""
EARLIEST = {"ledgerId": -1, "entryId": -1, "partitionIndex": -1}
_PERSISTENT = api.CommandGetTopicsOfNamespace.PERSISTENT


class Stage(NamedTuple):
    """A broker with many topics: `topics` in the namespace MANY, a tenth of them in FEW, PARTITIONS of WIDE."""

    service_url: str
    admin_url: str
    topics: int

    def rest(self, method: str, path: str, body: Any = None, *, root: str = "admin/v2/") -> int:
        """Calls the admin API and reads the answer to its end; returns its size. RuntimeError when it is refused."""
        url = urlsplit(self.admin_url)
        with closing(http.client.HTTPConnection(url.hostname or "", url.port, timeout=TIMEOUT_S)) as opened:
            text = None if body is None else json.dumps(body)
            opened.request(method, f"/{root}{path}", text, {"Content-Type": "application/json"})
            answer = opened.getresponse()
            size = 0
            while data := answer.read(1 << 18):
                size += len(data)
            if answer.status >= 400:
                raise RuntimeError(f"{method} {path}: {answer.status}")
            return size


def partitioned(namespace: str, topics: int) -> list[str]:
    """Names the partitioned topics that a namespace consists of."""
    return [f"{namespace}/t{number}" for number in range(-(-topics // PARTITIONS))]


def set_up(stage: Stage) -> None:
    """Makes the topics, each with a subscription."""
    for namespace, topics in ((MANY, stage.topics), (FEW, stage.topics // 10)):
        stage.rest("PUT", f"namespaces/{namespace}")
        left = topics
        for name in partitioned(namespace, topics):
            _make(stage, name, min(left, PARTITIONS))
            left -= PARTITIONS
    _make(stage, WIDE, PARTITIONS)
    topic = f"persistent://{BACKLOG}"
    stage.rest("PUT", f"persistent/{BACKLOG}")
    stage.rest("PUT", f"persistent/{BACKLOG}/subscription/{SUBSCRIPTION}")
    workloads.publish(stage.service_url, frames.SendBuffer(BACKLOG_ENTRIES, 100), [topic], 1_000)
    _attach(stage)


def _make(stage: Stage, name: str, partitions: int) -> None:
    stage.rest("PUT", f"persistent/{name}/partitions", partitions)
    stage.rest("PUT", f"persistent/{name}/subscription/{SUBSCRIPTION}")


def _attach(stage: Stage) -> None:
    """Gives a topic many subscriptions, and consumers to one of them; they stay."""
    opened = connect(stage.service_url)
    for number in range(CLIENTS):
        for name in (f"s{number}", SUBSCRIPTION):
            subscribe = api.CommandSubscribe(
                topic=f"persistent://{CROWD}",
                subscription=name,
                subType=api.CommandSubscribe.Shared,
                consumer_id=2 * number + (name == SUBSCRIPTION),
                request_id=number,
            )
            opened.sendall(frames.command(subscribe=subscribe))
            read_frame(opened)
    _stay.append(opened)


_stay: list[socket.socket] = []


# ---- Pulsar's own protocol --------------------------------------------------------------------------------------


def flood(stage: Stage, requests: Callable[[int], Sequence[bytes]], connections: int = CONNECTIONS) -> None:
    """Sends its requests on each of so many connections at once, and reads as many answers on each."""
    opened = [connect(stage.service_url) for _ in range(connections)]
    waiting = selectors.DefaultSelector()
    for number, each in enumerate(opened):
        wanted = requests(number)
        each.setblocking(False)
        waiting.register(each, selectors.EVENT_READ | selectors.EVENT_WRITE, _Exchange(each, wanted))
    while waiting.get_map():
        ready = waiting.select(TIMEOUT_S)
        if not ready:
            raise TimeoutError("no answers")
        for key, events in ready:
            exchange: _Exchange = key.data
            if events & selectors.EVENT_WRITE and exchange.write():
                waiting.modify(exchange.opened, selectors.EVENT_READ, exchange)
            if events & selectors.EVENT_READ and exchange.read():
                waiting.unregister(exchange.opened)
                exchange.opened.close()
    waiting.close()


class _Exchange:
    """Requests and the number of their answers on one connection. Frames are counted and not read."""

    def __init__(self, opened: socket.socket, requests: Sequence[bytes]) -> None:
        self.opened = opened
        self._to_write = memoryview(b"".join(requests))
        self._answers = len(requests)
        self._head = b""
        self._skip = 0

    def write(self) -> bool:
        """Writes as much as the socket takes; true when all is written."""
        self._to_write = self._to_write[self.opened.send(self._to_write[: 1 << 18]) :]
        return not self._to_write

    def read(self) -> bool:
        """Reads what has come; true when all answers have."""
        data = self.opened.recv(1 << 18)
        if not data:
            raise ConnectionError("the broker ended the connection")
        data = self._head + data
        at = self._skip
        while at + 4 <= len(data):
            at += 4 + int.from_bytes(data[at : at + 4])
            self._answers -= 1
        self._head = data[at:] if at < len(data) else b""
        self._skip = max(0, at - len(data))
        return self._answers <= 0


def _topic(number: int, topics: int, namespace: str = FEW) -> str:
    number %= topics
    return f"persistent://{namespace}/t{number // PARTITIONS}-partition-{number % PARTITIONS}"


def lookups(stage: Stage) -> None:
    """1,000 LOOKUPs on each of 200 connections."""
    wanted = [
        frames.command(lookupTopic=api.CommandLookupTopic(topic=_topic(number, stage.topics // 10), request_id=number))
        for number in range(1_000)
    ]
    flood(stage, lambda _: wanted)


def partition_metadata(stage: Stage) -> None:
    """1,000 partition-metadata requests on each of 200 connections."""
    wanted = [
        frames.command(
            partitionMetadata=api.CommandPartitionedTopicMetadata(
                topic=_topic(number, stage.topics // 10), request_id=number
            )
        )
        for number in range(1_000)
    ]
    flood(stage, lambda _: wanted)


def subscribes(stage: Stage) -> None:
    """250 SUBSCRIBEs on each of 200 connections."""

    def wanted(connection: int) -> list[bytes]:
        return [
            frames.command(
                subscribe=api.CommandSubscribe(
                    topic=_topic(connection * 250 + number, stage.topics // 10),
                    subscription=SUBSCRIPTION,
                    subType=api.CommandSubscribe.Shared,
                    consumer_id=number,
                    request_id=number,
                )
            )
            for number in range(250)
        ]

    flood(stage, wanted)


def _listing(namespace: str, pattern: str | None, request_id: int = 1) -> bytes:
    return frames.command(
        getTopicsOfNamespace=api.CommandGetTopicsOfNamespace(
            namespace=namespace, mode=_PERSISTENT, topics_pattern=pattern, request_id=request_id
        )
    )


def patterns(stage: Stage) -> None:
    """4 GET_TOPICS_OF_NAMESPACE with a pattern over a tenth of the topics, on each of 200 connections."""
    flood(stage, lambda _: [_listing(FEW, f"persistent://{FEW}/.*-{number}$", number) for number in range(4)])


def big_subscribe(stage: Stage) -> None:
    """A SUBSCRIBE of 5 MB with 860,000 metadata entries; the broker ends the connection."""
    number = api.CommandSubscribe.DESCRIPTOR.fields_by_name["metadata"].number
    entry = frames.varint(number << 3 | 2) + b"\x04\x0a\x00\x12\x00"
    command = api.CommandSubscribe(
        topic=_topic(0, stage.topics // 10),
        subscription="big",
        subType=api.CommandSubscribe.Shared,
        consumer_id=1,
        request_id=1,
    )
    content = command.SerializeToString() + entry * 860_000
    body = b"\x08\x04\x22" + frames.varint(len(content)) + content
    with closing(connect(stage.service_url)) as opened:
        try:
            opened.sendall(struct.pack(">II", len(body) + 4, len(body)) + body)
            read_frame(opened)
        except ConnectionError:
            pass


def names_of_all(stage: Stage) -> None:
    """GET_TOPICS_OF_NAMESPACE over all topics."""
    flood(stage, lambda _: [_listing(MANY, None)], 1)


def pattern_over_all(stage: Stage) -> None:
    """GET_TOPICS_OF_NAMESPACE with a pattern over all topics."""
    flood(stage, lambda _: [_listing(MANY, f"persistent://{MANY}/.*-1.*")], 1)


def slow_pattern(stage: Stage) -> None:
    """The same with a pattern that backtracking engines take exponential time for, and RE2 a million steps a name."""
    flood(stage, lambda _: [_listing(MANY, f"persistent://{MANY}/(t|[a-z0-9-]+)+([a-z0-9-]?){{200}}$")], 1)


def _watch(namespace: str, pattern: str, number: int) -> bytes:
    return frames.command(
        watchTopicList=api.CommandWatchTopicList(
            namespace=namespace, topics_pattern=pattern, watcher_id=number, request_id=number
        )
    )


def watch_all(stage: Stage) -> None:
    """WATCH_TOPIC_LIST over all topics."""
    flood(stage, lambda _: [_watch(MANY, f"persistent://{MANY}/.*-1.*", 1)], 1)


def watch_updates(stage: Stage) -> None:
    """100 watchers of a tenth of the topics, each with a pattern of its own, receive 2,000 new topics."""
    with closing(connect(stage.service_url)) as opened:
        for number in range(100):
            opened.sendall(_watch(FEW, f"persistent://{FEW}/.*|never{number}", number))
            read_frame(opened)
        name = f"{FEW}/news"
        stage.rest("PUT", f"persistent/{name}/partitions", PARTITIONS)
        for _ in range(100):
            read_frame(opened)
        stage.rest("DELETE", f"persistent/{name}/partitions")
        for _ in range(100):
            read_frame(opened)


# ---- the admin API ----------------------------------------------------------------------------------------------


def _get(*paths: str, root: str = "admin/v2/") -> Callable[[Stage], None]:
    def get(stage: Stage) -> None:
        for path in paths:
            stage.rest("GET", path, root=root)

    return get


def namespace_policy(stage: Stage) -> None:
    """Sets a policy of the namespace with all topics, and removes it."""
    stage.rest("POST", f"namespaces/{MANY}/retention", {"retentionTimeInMinutes": 10, "retentionSizeInMB": 10})
    stage.rest("POST", f"namespaces/{MANY}/messageTTL", 3600)
    stage.rest("DELETE", f"namespaces/{MANY}/messageTTL")
    stage.rest("DELETE", f"namespaces/{MANY}/retention")


_fresh = itertools.count()


def partitions(stage: Stage) -> None:
    """Creates a topic of 5,000 partitions with a subscription, doubles them, terminates, truncates and deletes it."""
    name = f"public/default/fresh-{time.monotonic_ns()}-{next(_fresh)}"
    stage.rest("PUT", f"persistent/{name}/partitions", 5_000)
    stage.rest("PUT", f"persistent/{name}/subscription/{SUBSCRIPTION}")
    stage.rest("POST", f"persistent/{name}/partitions", 10_000)
    stage.rest("DELETE", f"persistent/{name}/truncate")
    stage.rest("PUT", f"persistent/{name}/unload")
    stage.rest("POST", f"persistent/{name}/subscription/{SUBSCRIPTION}/skip_all")
    stage.rest("DELETE", f"persistent/{name}/subscription/{SUBSCRIPTION}")
    stage.rest("POST", f"persistent/{name}/terminate/partitions")
    stage.rest("DELETE", f"persistent/{name}/partitions")


def clear_backlog(stage: Stage) -> None:
    """Clears the backlogs of all topics of a namespace, of one subscription, and of one bundle."""
    stage.rest("POST", f"namespaces/{MANY}/clearBacklog")
    stage.rest("POST", f"namespaces/{MANY}/clearBacklog/{SUBSCRIPTION}")


def unsubscribe(stage: Stage) -> None:
    """Deletes a subscription of all topics of a namespace."""
    for name in partitioned(FEW, stage.topics // 10):
        stage.rest("PUT", f"persistent/{name}/subscription/other")
    stage.rest("POST", f"namespaces/{FEW}/unsubscribe/other")


def unload(stage: Stage) -> None:
    """Unloads a namespace with all topics."""
    stage.rest("PUT", f"namespaces/{MANY}/unload")


def backlog(stage: Stage) -> None:
    """Searches for messages in a long backlog in every way."""
    subscription = f"persistent/{BACKLOG}/subscription/{SUBSCRIPTION}"
    stage.rest("GET", f"{subscription}/position/{BACKLOG_ENTRIES // 2}")
    stage.rest("GET", f"persistent/{BACKLOG}/examinemessage?initialPosition=earliest&messagePosition=200000")
    stage.rest("GET", f"persistent/{BACKLOG}/messageid/1")
    stage.rest("POST", f"{subscription}/analyzeBacklog")
    stage.rest("POST", f"{subscription}/resetcursor/1")
    stage.rest("POST", f"{subscription}/skip/100")
    stage.rest("PUT", f"persistent/{BACKLOG}/backlogSize", EARLIEST)
    stage.rest("GET", f"persistent/{BACKLOG}/backlog")
    stage.rest("POST", f"{subscription}/expireMessages/100000")


def crowd(stage: Stage) -> None:
    """Statistics of a topic with 1,001 subscriptions and 2,000 consumers."""
    for kind in ("stats", "internalStats", "subscriptions", "internal-info", "backlog"):
        stage.rest("GET", f"persistent/{CROWD}/{kind}")


def wide_stats(stage: Stage) -> None:
    """Statistics of a topic of 2,000 partitions, with all that can be wanted."""
    stage.rest("GET", f"persistent/{WIDE}/partitioned-stats")
    stage.rest("GET", f"persistent/{WIDE}/partitioned-stats?getEarliestTimeInBacklog=true")


ATTACKS: dict[str, tuple[str, Callable[[Stage], None]]] = {
    "lookups": ("200 connections, 1,000 LOOKUPs each", lookups),
    "partition-metadata": ("200 connections, 1,000 partition-metadata requests each", partition_metadata),
    "subscribes": ("200 connections, 250 SUBSCRIBEs each", subscribes),
    "patterns": ("200 connections, 4 pattern GET_TOPICS each over a tenth of the topics", patterns),
    "big-subscribe": ("SUBSCRIBE of 5 MB with 860,000 metadata entries", big_subscribe),
    "names": ("GET_TOPICS over all topics", names_of_all),
    "pattern": ("pattern GET_TOPICS over all topics", pattern_over_all),
    "slow-pattern": ("the same with a costly pattern", slow_pattern),
    "watch": ("WATCH_TOPIC_LIST over all topics", watch_all),
    "watch-updates": ("100 watchers receive 2,000 topics", watch_updates),
    "rest-topics": ("REST: topics of the namespace", _get(f"namespaces/{MANY}/topics", f"persistent/{MANY}")),
    "rest-partitioned": ("REST: its partitioned topics", _get(f"persistent/{MANY}/partitioned")),
    "metrics": ("/metrics", _get("metrics", root="")),
    "broker-stats": ("REST: broker-stats/topics", _get("broker-stats/topics")),
    "partitioned-stats": ("REST: partitioned-stats of 2,000 partitions", wide_stats),
    "partitioned-internal": (
        "REST: partitioned-internalStats of them",
        _get(f"persistent/{WIDE}/partitioned-internalStats"),
    ),
    "wide": (
        "REST: subscriptions, backlog, internal-info, properties of them",
        _get(*(f"persistent/{WIDE}/{kind}" for kind in ("subscriptions", "backlog", "internal-info", "properties"))),
    ),
    "crowd": ("REST: statistics of a topic with 2,000 consumers", crowd),
    "backlog": ("REST: peek, examine, find, analyze, reset, skip, expire in 300,000 entries", backlog),
    "quota-check": ("REST: checks all backlog quotas", _get("brokers/backlog-quota-check")),
    "namespace-policy": ("REST: four changes of policies of the namespace", namespace_policy),
    "partitions": ("REST: life of a topic of 5,000 to 10,000 partitions", partitions),
    "clear-backlog": ("REST: clears the backlogs of the namespace twice", clear_backlog),
    "unsubscribe": ("REST: deletes a subscription of a tenth of the topics", unsubscribe),
    "unload": ("REST: unloads the namespace", unload),
}
"""Name → meaning, and the requests."""
