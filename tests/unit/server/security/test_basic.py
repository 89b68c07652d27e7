"""Basic authentication: users of an htpasswd file."""

import base64
import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from passlib.hash import apr_md5_crypt, bcrypt, des_crypt, sha512_crypt

from spark_pulsar.broker.configuration.broker_config import BrokerConfig
from spark_pulsar.model.errors import AuthenticationError
from spark_pulsar.server.configuration.reading import InvalidConfiguration
from spark_pulsar.server.configuration.server_config import ServerConfig
from spark_pulsar.server.security.basic import MAX_PASSWORD_BYTES, BasicProvider
from spark_pulsar.server.security.provider import Credentials

PASSWORD = "s3cret-basic"
HASHES = {
    "bcrypt": bcrypt.using(rounds=4).hash(PASSWORD),
    "bcrypt-2y": bcrypt.using(rounds=4, ident="2y").hash(PASSWORD),
    "apr1": "$apr1$spark123$/ojVlOmu67.WcHHFqIgCA0",
    "crypt": des_crypt.using(salt="ab").hash(PASSWORD),
}
USERS = "# users\n\n" + "".join(f"{user}:{hashed}\n" for user, hashed in HASHES.items())


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def role(provider: BasicProvider, data: bytes | str) -> str | None:
    """The role of credentials; None when they are refused."""
    given = data.encode() if isinstance(data, str) else data
    try:
        found = provider.authenticate(Credentials("basic", given), 0)
    except AuthenticationError:
        return None
    assert found.expires_ms is None
    return found.role


@pytest.fixture(scope="module")
def provider() -> BasicProvider:
    return BasicProvider(encoded(USERS))


@pytest.mark.parametrize("user", HASHES)
def test_the_right_password_gives_the_user_as_role(provider: BasicProvider, user: str) -> None:
    # covers AU-4, SEC-21
    assert role(provider, f"{user}:{PASSWORD}") == user
    assert role(provider, f"{user}:wrong{PASSWORD}") is None
    assert role(provider, f"{user}: {PASSWORD}") is None
    assert role(provider, f"{user}:") is None


@pytest.mark.parametrize("data", [b":", b"\xff:s3cret-basic", b"apr1:\xff\xfe", b"apr1:a\0b"])
def test_anything_else_is_refused(provider: BasicProvider, data: bytes) -> None:
    # covers AU-4
    assert role(provider, data) is None


@settings(max_examples=50)
@given(data=st.binary(max_size=200))
def test_no_bytes_get_in_nor_break_it(provider: BasicProvider, data: bytes) -> None:
    # covers AU-4
    assert role(provider, data) is None


def test_a_refusal_repeats_nothing(provider: BasicProvider) -> None:
    # covers AU-12
    for data in (f"apr1:x{PASSWORD}", PASSWORD, f":{PASSWORD}", f"{PASSWORD}:x", f"apr1:{PASSWORD * 1000}"):
        with pytest.raises(AuthenticationError) as refused:
            provider.authenticate(Credentials("basic", data.encode()), 0)
        assert PASSWORD not in repr(refused.value)
    assert PASSWORD not in repr(Credentials("basic", PASSWORD.encode()))


def test_a_password_may_hold_colons_and_what_bcrypt_cuts_off() -> None:
    # covers SEC-21
    long = "0123456789" * 9
    users = f"a:{apr_md5_crypt.hash('x:y:z')}\nb:{bcrypt.using(rounds=4).hash(long[:72])}\n"
    provider = BasicProvider(encoded(users))
    assert role(provider, "a:x:y:z") == "a"
    assert role(provider, "a:x:y") is None
    assert role(provider, f"b:{long}") == "b"


def test_a_password_has_a_longest_length() -> None:
    # covers SEC-21
    longest = "x" * MAX_PASSWORD_BYTES
    provider = BasicProvider(encoded(f"a:{apr_md5_crypt.hash(longest)}"))
    assert role(provider, f"a:{longest}") == "a"
    assert role(provider, f"a:{longest}x") is None


def test_an_unknown_user_costs_as_much_as_a_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers SEC-21
    provider = BasicProvider(encoded(USERS))
    compared, real = list[str](), BasicProvider._somebodys
    monkeypatch.setattr(
        BasicProvider, "_somebodys", lambda self, *about: compared.append(about[0]) or real(self, *about)
    )
    assert {real(provider, f"user-{number}", HASHES) for number in range(100)} == set(HASHES.values())
    assert real(provider, "x", HASHES) == real(provider, "x", HASHES)
    assert role(provider, f"nobody:{PASSWORD}") is None  # which fits the hash it is compared with
    assert compared == ["nobody"]
    assert role(BasicProvider(encoded("# nobody\n")), f"nobody:{PASSWORD}") is None


@pytest.mark.parametrize("form", ["path", "file:", "data:", "base64"])
def test_users_come_from_a_file_or_stand_in_the_key(tmp_path: Path, form: str) -> None:
    # covers AU-4
    file = tmp_path / "ht passwd"
    file.write_text(USERS)
    text = encoded(USERS)
    conf = {"path": str(file), "file:": file.as_uri(), "data:": f"data:;base64,{text}", "base64": text}[form]
    config = ServerConfig(broker=BrokerConfig(), basic_auth_conf=conf)
    assert role(BasicProvider.from_config(config), f"apr1:{PASSWORD}") == "apr1"


@pytest.mark.parametrize(
    ("conf", "text"),
    [
        ("", "basicAuthConf is not set"),
        ("/no/such/file", "no such file"),
        ("file:///no/such/file", "cannot read /no/such/file"),
        ("data:text/plain,x", "want data:;base64"),
        (encoded("a:b"), "line 1"),
        (encoded(f"# x\na:{sha512_crypt.using(rounds=1000).hash('x')}"), "line 2: want USER:HASH"),
        (encoded("a:{SHA}nU4eI71bcnBGqeO0t9tXvY1u5oQ="), "line 1"),
        (encoded("a:$apr1$salt"), "line 1"),
        (encoded("a:$2y$05$tooshort"), "line 1"),
        (encoded(f":{HASHES['apr1']}"), "line 1"),
        (encoded("no colon"), "line 1"),
        (base64.b64encode(b"\xff\xfe").decode(), "no text in base64"),
        ("x" * 100_000 + "!", "no such file"),
    ],
)
def test_what_cannot_be_used_is_told_at_the_start_without_its_text(conf: str, text: str) -> None:
    # covers AU-4, AU-12
    with pytest.raises(InvalidConfiguration, match=text) as told:
        BasicProvider.from_config(ServerConfig(broker=BrokerConfig(), basic_auth_conf=conf))
    assert "SHA" not in str(told.value)
    assert "$" not in str(told.value)
    assert len(str(told.value)) < 300


def test_a_file_is_read_again_when_it_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # covers SEC-21
    file = tmp_path / "htpasswd"
    file.write_text(f"a:{apr_md5_crypt.hash('one')}\n")
    provider = BasicProvider(str(file))
    assert role(provider, "a:one") == "a"
    fresh = tmp_path / "fresh"
    fresh.write_text(f"a:{apr_md5_crypt.hash('two')}\n")
    fresh.replace(file)
    assert role(provider, "a:one") is None
    assert role(provider, "a:two") == "a"
    with caplog.at_level(logging.ERROR):
        fresh.write_text("broken\n")
        fresh.replace(file)
        assert role(provider, "a:two") == role(provider, "a:two") == "a"
        file.unlink()
        assert role(provider, "a:two") == role(provider, "a:two") == "a"
    assert [message.partition(",")[0].partition(": ")[0] for message in caplog.messages] == ["basicAuthConf"] * 2
    fresh.write_text(f"a:{apr_md5_crypt.hash('six')}\n")
    fresh.replace(file)
    assert role(provider, "a:six") == "a"


@pytest.mark.parametrize(
    ("header", "data"),
    [
        (f"Basic {encoded('a:b')}", b"a:b"),
        (f"bAsIc   {encoded('a:b')} ", b"a:b"),
        ("Basic !!!", b""),
        ("Basic", b""),
        ("Bearer x", None),
        (None, None),
    ],
)
def test_http_has_them_in_its_header(provider: BasicProvider, header: str | None, data: bytes | None) -> None:
    # covers AU-6
    assert provider.from_headers({} if header is None else {"authorization": header}, None) == data
