"""Profiles: what they keep, what they do not, and who wins over them."""

import json
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from spark_pulsar.cli.access.access import Access, admin_access, broker_access
from spark_pulsar.cli.access.options import AccessOptions
from spark_pulsar.cli.access.profiles import Profile, place, profile_of
from spark_pulsar.cli.main import app
from tests.brokers import Broker

SECRET = "s3cr3t-of-a-profile"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without profiles, in a working directory of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("SPARK_PULSAR_PROFILE", "PULSAR_ADMIN_URL", "PULSAR_SERVICE_URL", "PULSAR_CLIENT_CONF"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def run(*words: str | Path, status: int = 0) -> Result:
    done = CliRunner().invoke(app, ["profile", *map(str, words)], prog_name="spark-pulsar")
    assert done.exit_code == status, done.output
    return done


def listed() -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(run("list", "-o", "json").stdout)
    return found


def access(profile: str | None = None, url: str | None = None) -> Access:
    return admin_access(AccessOptions(profile=profile, url=url))


def test_profiles_come_and_go(home: Path) -> None:
    token = home / "token"
    token.write_text(SECRET)
    run("add", "prod", "-u", "pulsar+ssl://h:6651/", "--admin-url", "https://h:8443", "--token-file", token)
    run("add", "test", "--admin-url", "http://t:8080", "--no-tls-enable-hostname-verification")
    assert [(each["name"], each["current"]) for each in listed()] == [("prod", True), ("test", False)]
    shown = json.loads(run("show", "-o", "json").stdout)
    assert shown["service_url"] == "pulsar+ssl://h:6651"
    assert shown["auth_params"] == token.as_uri()
    run("use", "test")
    assert "tls_enable_hostname_verification\tfalse\n" in run("show").stdout
    run("use", "--none")
    run("remove", "test")
    assert [(each["name"], each["current"]) for each in listed()] == [("prod", False)]
    file = home / "config/spark-pulsar/profiles.toml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert SECRET not in file.read_text()


def test_options_win_over_a_profile_over_variables_over_a_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers SEC-82
    (home / "conf").mkdir()
    (home / "conf/client.conf").write_text("webServiceUrl=http://file:1\n")
    assert access().url == "http://file:1"
    monkeypatch.setenv("PULSAR_ADMIN_URL", "http://variable:1")
    assert access().url == "http://variable:1"
    run("add", "a", "--admin-url", "http://a:1")
    run("add", "b", "--admin-url", "http://b:1")
    assert access().url == "http://a:1"
    assert access("b").url == "http://b:1"
    assert access("b", "http://option:1").url == "http://option:1"
    monkeypatch.setenv("SPARK_PULSAR_PROFILE", "b")
    assert access().url == "http://b:1"
    assert access("a").url == "http://a:1"
    monkeypatch.setenv("SPARK_PULSAR_PROFILE", "")
    assert access().url == "http://variable:1"


def test_credentials_of_a_profile_are_not_mixed_with_others(home: Path) -> None:
    token, password = home / "token", home / "password"
    token.write_text(SECRET)
    password.write_text(json.dumps({"userId": "me", "password": SECRET}))
    run("add", "a", "-u", "pulsar://h:1", "--token-file", token)
    run("add", "b", "-u", "pulsar://h:1", "--auth-plugin", "basic", "--auth-params-file", password)
    assert broker_access(AccessOptions()).headers()["Authorization"] == f"Bearer {SECRET}"
    assert broker_access(AccessOptions(profile="b")).headers()["Authorization"].startswith("Basic ")
    given = AccessOptions(auth_plugin="token", auth_params="token:other", profile="b")
    assert broker_access(given).headers()["Authorization"] == "Bearer other"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--auth-plugin", "token", "--auth-params", f"token:{SECRET}"), "a profile keeps no secret"),
        (("--auth-plugin", "token", "--auth-params", SECRET), "a profile keeps no secret"),
        (("--auth-plugin", "basic", "--auth-params", f'{{"userId":"a","password":"{SECRET}"}}'), "keeps no secret"),
        (("--auth-plugin", "oauth2", "--auth-params", f'{{"privateKey":"data:,{SECRET}"}}'), "keeps no secret"),
        (("--auth-plugin", "kerberos", "--auth-params", "file:///x"), "is not supported"),
        (("--auth-params", "file:///x"), "for which plugin?"),
        (("--service-url", "http://h:8080"), "want pulsar://HOST:PORT"),
        (("--admin-url", "pulsar://h:6650"), "want http://HOST:PORT"),
        (("--admin-url", f"http://me:{SECRET}@h:8080"), "do not belong there"),
        ((), "a profile of nothing"),
    ],
)
def test_what_a_profile_cannot_be(words: tuple[str, ...], said: str) -> None:
    refused = run("add", "x", *words, status=2)
    assert said in refused.stderr
    assert SECRET not in refused.output
    assert listed() == []


@pytest.mark.parametrize(
    "params",
    ["file:///t", "env:T", "tlsCertFile:/c,tlsKeyFile:/k", '{"privateKey":"file:///k","issuerUrl":"u","audience":"a"}'],
)
def test_parameters_without_a_secret(params: str) -> None:
    run("add", "x", "--auth-plugin", "token", "--auth-params", params)


def test_a_user_without_a_home_has_no_profiles(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a container may be."""

    def unknown(_: int) -> None:
        raise KeyError

    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert place() == Path("/.config/spark-pulsar/profiles.toml")
    assert profile_of(AccessOptions()) == Profile()


def test_names_that_are_taken_or_missing(home: Path) -> None:
    run("add", "a", "--admin-url", "http://a:1")
    assert "--overwrite" in run("add", "a", "--admin-url", "http://b:1", status=2).stderr
    run("add", "a", "--admin-url", "http://b:1", "--overwrite")
    assert access().url == "http://b:1"
    assert "no profile 'c'" in run("use", "c", status=2).stderr
    assert "want a name of letters" in run("add", "a b", "--admin-url", "http://a:1", status=2).stderr
    (home / "config/spark-pulsar/profiles.toml").write_text("[profiles.a]\nservice = 'x'\n")
    assert "profile a: service: known are service_url" in run("list", status=2).stderr


def test_a_command_by_its_profile(broker: Broker) -> None:
    run("add", "here", "-u", broker.service_url, "--admin-url", broker.admin_url)
    sent = CliRunner().invoke(app, ["produce", broker.topic(), "-m", "x"])
    assert sent.exit_code == 0, sent.output
    listed = CliRunner().invoke(app, ["admin", "--profile", "here", "tenants", "list"])
    assert "public\n" in listed.stdout
