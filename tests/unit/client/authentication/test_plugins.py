"""Plugins by their names, tokens and passwords by their sources, and nothing of them in any text."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from spark_pulsar.client.authentication.plugins import Authentication
from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.connections.service_url import without_user
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import CredentialsError, InvalidServiceUrl, NotSupportedByClient
from spark_pulsar.client.secret import Secret

JAVA = "org.apache.pulsar.client.impl.auth."
TOKEN = f"{JAVA}AuthenticationToken"
BASIC = f"{JAVA}AuthenticationBasic"
S3CRET = "s3cret-value"


def shown(plugin: str, params: str) -> tuple[str, bytes | None]:
    """The method and the bytes in CONNECT."""
    credentials = Authentication(plugin, Secret(params)).credentials()
    return credentials.method, credentials.data(Deadline(1_000, "asking", "here"))


@pytest.mark.parametrize("params", ["token:abc.def", "abc.def", " token:abc.def\n", '{"token": "abc.def"}'])
def test_a_token_as_text(params: str) -> None:
    assert shown(TOKEN, params) == shown("token", params) == ("token", b"abc.def")


def test_a_token_is_read_anew_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "a token"
    path.write_text("first\n")
    credentials = Authentication(TOKEN, Secret(path.as_uri())).credentials()
    assert credentials.data(Deadline(1_000, "asking", "here")) == b"first"
    path.write_text("token:second")
    assert credentials.data(Deadline(1_000, "asking", "here")) == b"second"


def test_a_token_is_read_anew_from_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULSAR_TOKEN", "first")
    assert shown(TOKEN, "env:PULSAR_TOKEN") == ("token", b"first")
    monkeypatch.setenv("PULSAR_TOKEN", "second")
    assert shown(TOKEN, "env:PULSAR_TOKEN") == ("token", b"second")


def test_a_user_and_a_password(tmp_path: Path) -> None:
    params = '{"userId": "me", "password": "a:b"}'
    (tmp_path / "basic.json").write_text(params)
    assert shown(BASIC, params) == shown(BASIC, (tmp_path / "basic.json").as_uri()) == ("basic", b"me:a:b")


def test_nobody() -> None:
    assert shown("", "") == shown(f"{JAVA}AuthenticationDisabled", "") == ("none", None)


@pytest.mark.parametrize("plugin", [f"{JAVA}AuthenticationAthenz", f"{JAVA}AuthenticationSasl", "com.example.Mine"])
def test_other_plugins_are_refused_by_name(plugin: str) -> None:
    with pytest.raises(NotSupportedByClient, match=f"'{plugin}' is not supported; supported are {TOKEN}, {BASIC}"):
        Authentication(plugin, Secret("x"))


@pytest.mark.parametrize(
    ("plugin", "params"),
    [
        ("token", ""),
        ("token", "token:"),
        ("token", f"token:{S3CRET} {S3CRET}"),
        ("token", f'{{"tokn": "{S3CRET}"}}'),
        ("token", f"{{{S3CRET}"),
        ("basic", ""),
        ("basic", f"me:{S3CRET}"),
        ("basic", f'{{"password": "{S3CRET}"}}'),
        ("basic", f'{{"userId": 1, "password": "{S3CRET}"}}'),
        ("basic", f"{{{S3CRET}"),
        ("tls", f"tlsCertFile:{S3CRET}"),
        ("tls", S3CRET),
        ("", S3CRET),
    ],
)
def test_bad_parameters_are_refused_without_quoting_them(plugin: str, params: str) -> None:
    with pytest.raises(ValueError, match=r"expected|authPluginClassName|missing") as caught:
        Authentication(plugin, Secret(params))
    assert S3CRET not in str(caught.value)


def test_sources_that_hold_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "bytes").write_bytes(b"\xff" * 10)
    (tmp_path / "huge").write_bytes(b"x" * 70_000)
    (tmp_path / "words").write_text(f"{S3CRET} {S3CRET}")
    for name, reason in {
        "missing": "No such file",
        "empty": "holds no credentials",
        "bytes": "not text",
        "huge": "holds no credentials",
        "words": "no token: expected",
    }.items():
        with pytest.raises(CredentialsError, match=reason) as caught:
            shown(TOKEN, (tmp_path / name).as_uri())
        assert S3CRET not in str(caught.value)
    with pytest.raises(CredentialsError, match=r"spark.executorEnv.NO_SUCH_VARIABLE"):
        shown(TOKEN, "env:NO_SUCH_VARIABLE")
    with pytest.raises(CredentialsError, match="absolute path"):
        shown(TOKEN, "file:token")


def test_a_configuration_carries_its_secret_and_never_shows_it() -> None:
    config = ClientConfig("pulsar://a", authentication=Authentication("token", Secret(S3CRET)))
    for text in (repr(config), str(config), f"{config}", repr(PulsarClient(config)), repr(Secret(S3CRET))):
        assert S3CRET not in text
    again = pickle.loads(pickle.dumps(config))
    assert again == config
    assert hash(again) == hash(config)
    assert again.authentication.params.reveal() == S3CRET


@pytest.mark.parametrize("url", [f"pulsar://me:{S3CRET}@a", f"pulsar+ssl://a,me:{S3CRET}@b", f"://{S3CRET}@@"])
def test_a_service_url_never_shows_a_password(url: str) -> None:
    with pytest.raises(InvalidServiceUrl) as caught:
        ClientConfig(url)
    assert S3CRET not in str(caught.value)
    assert S3CRET not in without_user(url)
