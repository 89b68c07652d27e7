"""Who may open a WebSocket, and what it may hold: tokens, permissions, pages of other hosts, sizes, idle clients."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from urllib.parse import urlsplit

import jwt
import psutil
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

import spark_pulsar
from spark_pulsar.client.clock import wall_ms
from tests.brokers import Broker, topic_path
from tests.conftest import started
from tests.eventually import eventually
from tests.websocket import PATIENCE_S, WebSocket, encoded, opened, path_of, refused

SECRET = b"a secret key of tests, which is long enough for each of HS256, HS384 and HS512"


def _token(role: str, **claims: object) -> str:
    return jwt.encode({"sub": role, **claims}, SECRET, algorithm="HS256")


def _bearer(role: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {_token(role)}"}


@pytest.fixture(scope="module")
def closed_broker(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with tokens and permissions, and with WebSockets of small limits."""
    directory = tmp_path_factory.mktemp("websocket-access")
    (directory / "secret.key").write_bytes(SECRET)
    conf: Mapping[str, object] = {
        "webSocketServiceEnabled": "true",
        "webSocketMaxTextFrameSize": 10_000,
        "webSocketSessionIdleTimeoutMillis": 2_000,
        "authenticationEnabled": "true",
        "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
        "tokenSecretKey": (directory / "secret.key").as_uri(),
        "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
        "brokerClientAuthenticationParameters": f"token:{_token('admin')}",
        "authorizationEnabled": "true",
        "authenticationRefreshCheckSeconds": 1,
        "superUserRoles": "admin",
    }
    with started(broker_kind, directory / "data", conf, _bearer("admin")) as closed:
        yield closed


def _granted(broker: Broker, role: str, *actions: str) -> str:
    """A topic on which a role has permissions."""
    topic = broker.topic()
    admin = _bearer("admin")
    assert broker.rest("PUT", topic_path(topic), headers=admin)[0] in (204, 409)
    path = f"{topic_path(topic)}/permissions/{role}"
    assert broker.rest("POST", path, list(actions), headers=admin)[0] == 204
    return topic


def test_a_token_comes_in_the_header_or_in_the_query(closed_broker: Broker) -> None:
    # covers WS-8, AU-2
    topic = _granted(closed_broker, "writer", "produce")
    with opened(closed_broker, path_of("producer", topic), headers=_bearer("writer")) as producer:
        assert producer.call({"payload": encoded("a")})["result"] == "ok"
    with opened(closed_broker, path_of("producer", topic, token=_token("writer"))) as producer:
        assert producer.call({"payload": encoded("b")})["result"] == "ok"


def test_who_shows_no_good_token_or_has_no_permission_is_refused(closed_broker: Broker) -> None:
    # covers WS-2, WS-8
    topic = closed_broker.topic()
    assert refused(closed_broker, path_of("producer", topic))[0] == 401
    assert refused(closed_broker, path_of("producer", topic, token="nonsense"))[0] == 401
    expired = _token("admin", exp=wall_ms() // 1000 - 100)
    assert refused(closed_broker, path_of("producer", topic, token=expired))[0] == 401
    # The header counts when there are both.
    wrong = {"Authorization": "Bearer nonsense"}
    assert refused(closed_broker, path_of("producer", topic, token=_token("admin")), headers=wrong)[0] == 401
    topic = _granted(closed_broker, "reader", "consume")
    assert refused(closed_broker, path_of("producer", topic, token=_token("reader")))[0] == 403
    assert refused(closed_broker, path_of("producer", topic, token=_token("nobody")))[0] == 403


@pytest.mark.ours_only("WS-8")
def test_a_websocket_ends_with_its_token(closed_broker: Broker) -> None:
    # covers WS-8
    topic = closed_broker.topic()
    token = _token("admin", exp=wall_ms() // 1000 + 2)
    with opened(closed_broker, path_of("producer", topic, token=token)) as producer:

        def is_closed() -> bool:
            try:
                return producer.call({"payload": encoded("x")}) is None
            except ConnectionClosed:
                return True

        assert eventually(is_closed, 100)


def test_a_text_has_a_largest_size_and_silence_an_end(closed_broker: Broker) -> None:
    # covers WS-9
    topic = closed_broker.topic()
    with opened(closed_broker, path_of("producer", topic), headers=_bearer("admin")) as producer:
        whole = '{"payload":"aGk=","context":"' + "x" * 9_969 + '"}'
        assert len(whole) == 10_000
        assert producer.call(whole)["result"] == "ok"
        producer.send(whole.replace("x", "xx", 1))
        assert producer.closed() == 1009
    topic = closed_broker.topic()
    with opened(closed_broker, path_of("producer", topic), headers=_bearer("admin")) as producer:
        started_s = time.monotonic()
        assert producer.closed() == 1001
        assert 1 < time.monotonic() - started_s < 15


@pytest.mark.ours_only("WS-8")
@pytest.mark.parametrize(
    ("origin", "is_let_in"),
    [
        (None, True),
        ("http://evil.example", False),
        ("null", False),
        ("https://evil.example:8080", False),
        ("http://localhost:3000", True),
        ("http://127.0.0.1:9", True),
    ],
)
def test_a_page_of_another_host_gets_no_websocket(broker: Broker, origin: str | None, is_let_in: bool) -> None:
    # covers WS-8, T-25
    path = path_of("producer", broker.topic())
    headers = {} if origin is None else {"Origin": origin}
    if is_let_in:
        with opened(broker, path, headers=headers) as producer:
            assert producer.call({"payload": encoded("x")})["result"] == "ok"
    else:
        assert refused(broker, path, headers=headers)[0] == 403


@pytest.mark.ours_only("WS-8")
def test_a_name_of_somebody_else_gets_no_websocket(broker: Broker) -> None:
    # covers WS-8, SEC-41
    path = path_of("producer", broker.topic())
    headers = {"Origin": "http://rebound.example", "Host": "rebound.example"}
    assert refused(broker, path, headers=headers)[0] in (400, 403)


def _handshake(broker: Broker, path: str) -> socket.socket:
    """A socket after the upgrade, whose client reads when it likes."""
    url = urlsplit(broker.admin_url)
    assert url.hostname is not None
    connection = socket.create_connection((url.hostname, url.port or 80), timeout=20)
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    connection.sendall(
        f"{head}Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
    )
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += connection.recv(4096)
    assert b" 101 " in answer.split(b"\r\n")[0]
    return connection


@pytest.mark.ours_only("WS-9")
def test_a_client_that_reads_nothing_is_not_read_from(broker: Broker) -> None:
    # covers WS-9: neither its PINGs nor its messages fill the broker's memory
    with _handshake(broker, path_of("producer", broker.topic())) as connection:
        connection.settimeout(3)
        pings = (b"\x89\xfd" + bytes(4) + b"p" * 125) * 1000
        sent_bytes = 0
        with contextlib.suppress(TimeoutError):
            while sent_bytes < 200_000_000:
                sent_bytes += connection.send(pings)
    assert sent_bytes < 100_000_000
    with opened(broker, path_of("producer", broker.topic())) as other:
        assert eventually(lambda: other.call({"payload": encoded("x")})["result"] == "ok")


@pytest.mark.ours_only("WS-9")
@pytest.mark.parametrize(
    "head",
    [
        "POST /ws/v2/producer/persistent/public/default/t HTTP/1.1\r\nContent-Length: 5",
        "GET /ws/v2/producer/persistent/public/default/t HTTP/1.1\r\nSec-WebSocket-Key: x",
        "GET /ws/v2/producer/persistent/public/default/t HTTP/1.1\r\n" + "\r\n".join(["X: 1"] * 200),
    ],
)
def test_a_request_that_can_have_no_websocket_is_answered(broker: Broker, head: str) -> None:
    # covers WS-9: and its connection is closed, instead of held until it is idle
    url = urlsplit(broker.admin_url)
    with socket.create_connection((url.hostname or "", url.port or 80), timeout=20) as connection:
        rest = "Host: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n"
        connection.sendall(f"{head}\r\n{rest}".encode())
        answer = b""
        while piece := connection.recv(4096):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 400 ")


_MESSAGES = 1_500
_PAYLOAD = bytes(100_000)


def _upgraded(broker: Broker, path: str) -> socket.socket:
    url = urlsplit(broker.admin_url)
    assert url.hostname is not None
    connection = socket.create_connection((url.hostname, url.port or 80), timeout=20)
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    head += "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    connection.sendall(head.encode())
    return connection


@pytest.mark.ours_only("WS-9")
def test_readers_that_take_nothing_do_not_fill_the_memory(own_broker: Broker) -> None:
    # covers WS-9, SEC-30
    topic = own_broker.topic()
    producer = own_broker.client().create_producer(topic, batching_enabled=False, max_pending_messages=100)
    assert own_broker.process is not None
    broker = psutil.Process(own_broker.process.pid)
    with contextlib.ExitStack() as stack:
        for _ in range(10):
            connection = _upgraded(own_broker, path_of("reader", topic, messageId="earliest"))
            stack.callback(connection.close)
            assert b" 101 " in connection.recv(200)
        before_bytes = broker.memory_info().rss
        for _ in range(_MESSAGES):  # 150 MB, times ten readers
            producer.send_async(_PAYLOAD, lambda *_: None)
        producer.flush()
        with opened(own_broker, path_of("producer", topic)) as other:
            assert other.call({"payload": encoded("last")})["result"] == "ok"
        assert broker.memory_info().rss - before_bytes < 250_000_000
    with opened(own_broker, path_of("reader", topic, messageId="earliest")) as reader:
        assert len(reader.receive()["payload"]) > 100_000


TOPIC = "persistent://public/default/over-tls"


@pytest.mark.ours_only("Apache Pulsar's own handshakes are not in question")
def test_messages_go_both_ways_over_tls() -> None:
    # covers WS-1, SEC-42
    with spark_pulsar.broker_process(tls=True) as broker, ExitStack() as stack:
        context = ssl.create_default_context(cafile=broker.spark_options["pulsar.client.tlsTrustCertsFilePath"])

        def opened(path: str) -> WebSocket:
            url = broker.admin_url.replace("http", "ws", 1) + path
            connection = connect(url, ssl=context, open_timeout=PATIENCE_S, max_size=None, proxy=None)
            return WebSocket(stack.enter_context(connection))

        producer = opened(path_of("producer", TOPIC))
        consumer = opened(path_of("consumer", TOPIC, "s"))
        payloads = [encoded(b"x" * size) for size in (1, 20_000, 400_000)]
        for payload in payloads:
            assert producer.call({"payload": payload})["result"] == "ok"
        for payload in payloads:
            message = consumer.receive()
            assert message["payload"] == payload
            consumer.send({"messageId": message["messageId"]})
