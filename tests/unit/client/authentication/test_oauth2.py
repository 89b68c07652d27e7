"""OAuth 2.0: what is asked of the issuer, when, and what is told when it refuses."""

from __future__ import annotations

import base64
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark_pulsar.client.authentication import oauth2
from spark_pulsar.client.authentication.oauth2 import OAuth2Credentials
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import ConnectFailed, CredentialsError
from spark_pulsar.client.secret import Secret
from spark_pulsar.model.errors import PulsarError
from tests.security.certificates import Authority
from tests.unit.client.authentication.issuer import CLIENT_ID, CLIENT_SECRET, Issuer, key_file


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    one = Issuer()
    yield one
    one.close()


def soon() -> Deadline:
    return Deadline(10_000, "asking", "the issuer")


def credentials(params: str) -> OAuth2Credentials:
    return OAuth2Credentials(Secret(params))


def test_a_token_is_asked_for_once(issuer: Issuer, tmp_path: Path) -> None:
    mine = credentials(issuer.params(key_file(tmp_path), audience="urn:pulsar", scope="api"))
    assert mine.method == "token"
    assert [mine.data(soon()) for _ in range(3)] == [b"token-1"] * 3
    assert issuer.asked == [
        {
            "grant_type": "client_credentials",
            "client_id": CLIENT_ID,
            "client_secret": CLIENT_SECRET,
            "audience": "urn:pulsar",
            "scope": "api",
        }
    ]


def test_the_key_may_be_in_the_parameters_or_the_parameters_elsewhere(
    issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = base64.b64encode(f'{{"client_id": "{CLIENT_ID}", "client_secret": "{CLIENT_SECRET}"}}'.encode()).decode()
    url = f"data:application/json;base64,{key}"
    assert credentials(issuer.params(url)).data(soon()) == b"token-1"
    (tmp_path / "params.json").write_text(issuer.params(url))
    assert credentials((tmp_path / "params.json").as_uri()).data(soon()) == b"token-2"
    monkeypatch.setenv("PULSAR_OAUTH2", issuer.params(key_file(tmp_path)))
    assert credentials("env:PULSAR_OAUTH2").data(soon()) == b"token-3"


def test_a_token_is_renewed_before_it_expires(issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = [1_000_000]
    monkeypatch.setattr(oauth2, "monotonic_ms", lambda: now_ms[0])
    issuer.lives_s = 100
    mine = credentials(issuer.params(key_file(tmp_path)))
    assert mine.data(soon()) == b"token-1"
    now_ms[0] += 89_999
    assert mine.data(soon()) == b"token-1"
    now_ms[0] += 1
    assert mine.data(soon()) == b"token-2"


def test_a_refused_token_is_renewed_once_for_all_connections(issuer: Issuer, tmp_path: Path) -> None:
    issuer.lives_s = None
    mine = credentials(issuer.params(key_file(tmp_path)))
    assert mine.data(soon()) == b"token-1"
    assert mine.data(soon(), refused=b"token-1") == b"token-2"
    assert mine.data(soon(), refused=b"token-1") == b"token-2"


def test_an_issuer_behind_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issuer = Issuer(authority.issue("127.0.0.1"))
    try:
        trusted = issuer.params(key_file(tmp_path), trustCertsFilePath=str(authority.path))
        assert credentials(trusted).data(soon()) == b"token-1"
        with pytest.raises(ConnectFailed, match="certificate"):
            credentials(issuer.params(key_file(tmp_path))).data(soon())
        issuer.endpoint = "http://127.0.0.1:1/token"
        with pytest.raises(CredentialsError, match="no token_endpoint"):
            credentials(trusted).data(soon())
    finally:
        issuer.close()


def test_a_refusal_is_told_without_the_secret(issuer: Issuer, tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match=r"status 401 invalid_client not with \*+\(redacted\)") as caught:
        credentials(issuer.params(key_file(tmp_path, "wr0ng"))).data(soon())
    assert "wr0ng" not in str(caught.value)


@pytest.mark.parametrize("status", [500, 429])
def test_a_busy_issuer_may_be_asked_again(issuer: Issuer, tmp_path: Path, status: int) -> None:
    issuer.status = status
    with pytest.raises(ConnectFailed, match=f"status {status}") as caught:
        credentials(issuer.params(key_file(tmp_path))).data(soon())
    assert caught.value.retriable


def test_an_issuer_that_is_not_there(tmp_path: Path) -> None:
    params = f'{{"issuerUrl": "http://127.0.0.1:1", "privateKey": "{key_file(tmp_path)}"}}'
    with pytest.raises(ConnectFailed, match=r"cannot reach the OAuth 2.0 issuer at http://127.0.0.1:1/"):
        credentials(params).data(soon())


@pytest.mark.parametrize(
    ("private_key", "reason"),
    [
        ("file:///nowhere/key.json", "cannot be read from /nowhere/key.json"),
        ("data:application/json;base64,****", "no data: URL"),
        ("data:application/json;base64,e30=", "client_id and client_secret"),
        ("env:NO_SUCH_VARIABLE", "'NO_SUCH_VARIABLE' with the credentials is not set"),
    ],
)
def test_a_key_that_is_none(issuer: Issuer, private_key: str, reason: str) -> None:
    with pytest.raises(PulsarError, match=reason):
        credentials(issuer.params(private_key)).data(soon())


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ("{}", "issuerUrl is missing"),
        ('{"issuerUrl": "ftp://a"}', "issuerUrl is missing"),
        ('{"issuerUrl": "https://u:p@a"}', "holds a user"),
        ('{"issuerUrl": "https://a"}', "privateKey is missing"),
        ('{"issuerUrl": "https://a", "privateKey": "c2VjcmV0"}', "privateKey is missing or neither"),
        ('{"issuerUrl": "https://a", "privateKey": "env:A", "type": "device"}', "flow 'device' is not supported"),
        ('{"issuerUrl": "https://a", "privateKey": "env:A", "audiense": "x"}', "unknown parameter audiense"),
    ],
)
def test_parameters_are_checked_at_once(params: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        credentials(params)


def test_what_may_be_a_secret_is_not_quoted_as_a_name() -> None:
    with pytest.raises(ValueError, match="unknown parameter clientId, \\(no name, not shown\\); known are") as told:
        credentials('{"issuerUrl": "https://a", "privateKey": "env:A", "s3cret-Key==": "", "clientId": "x"}')
    assert "s3cret" not in str(told.value)


@contextlib.contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """The `authParams` of an issuer that answers one request with what no HTTP server says."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            try:
                sock, _ = listener.accept()
            except OSError:  # nobody came
                return
            with sock, contextlib.suppress(OSError):  # the client does not wait for all of it
                sock.recv(1 << 16)
                answer(sock)

        thread = threading.Thread(target=serve)
        thread.start()
        key = base64.b64encode(b'{"client_id": "a", "client_secret": "b"}').decode()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            yield f'{{"issuerUrl": "{url}", "privateKey": "data:application/json;base64,{key}"}}'
        finally:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", "cannot reach the OAuth 2.0 issuer"),
        (b"HTTP/1.0 200 OK\r\n\r\n" + b"[" * 200_000, "something else than a JSON object"),
        (b"HTTP/1.0 400 Bad Request\r\n\r\n" + b"[" * 200_000, "status 400"),
    ],
)
def test_answers_of_something_else_are_told(answer: bytes, reason: str) -> None:
    with answering(lambda sock: sock.sendall(answer)) as params, pytest.raises(PulsarError, match=reason):
        credentials(params).data(soon())


@pytest.mark.parametrize("head", [b"HTTP/1.0 200 OK\r\nX: ", b"HTTP/1.0 200 OK\r\n\r\n", b"HTTP/1.0 401 No\r\n\r\n"])
def test_an_issuer_that_answers_too_slowly_is_left_at_the_deadline(head: bytes) -> None:
    given_up = threading.Event()

    def drip(sock: socket.socket) -> None:
        sock.sendall(head)
        while not given_up.wait(0.1):  # never silent for long, never finished
            sock.sendall(b" ")

    with answering(drip) as params:
        guard = threading.Timer(8, given_up.set)
        guard.start()
        try:
            with pytest.raises(ConnectFailed, match="no whole answer"):
                credentials(params).data(Deadline(1_500, "asking", "the issuer"))
            assert not given_up.is_set()
        finally:
            guard.cancel()
            given_up.set()


@pytest.mark.parametrize(("lives", "renewed"), [("100", True), ("soon", False), (1e300, False), (float("inf"), False)])
def test_lifetimes_of_all_kinds(
    issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lives: object, renewed: bool
) -> None:
    now_ms = [1_000_000]
    monkeypatch.setattr(oauth2, "monotonic_ms", lambda: now_ms[0])
    issuer.lives_s = lives  # type: ignore[assignment]
    mine = credentials(issuer.params(key_file(tmp_path)))
    assert mine.data(soon()) == b"token-1"
    now_ms[0] += 90_000
    assert mine.data(soon()) == (b"token-2" if renewed else b"token-1")


def test_an_issuer_whose_port_is_none(tmp_path: Path) -> None:
    params = f'{{"issuerUrl": "http://127.0.0.1:abc", "privateKey": "{key_file(tmp_path)}"}}'
    with pytest.raises(PulsarError, match=r"cannot reach the OAuth 2.0 issuer"):
        credentials(params).data(soon())
