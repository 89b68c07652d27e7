"""A broker with a marked secret in every key that may hold one, and nothing of them in what it says (AU-12)."""

import base64
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import jwt
import pytest
from docs_tables.configuration import broker_conf
from passlib.hash import bcrypt
from typer.testing import CliRunner

from spark_pulsar.admin.app import ROUTES
from spark_pulsar.broker.configuration.keys import holds_secret
from spark_pulsar.cli.main import app
from spark_pulsar.server.configuration.pulsar_keys import PULSAR_KEYS
from spark_pulsar.server.configuration.reading import KEYS, parse_properties
from spark_pulsar.testing.process import BrokerProcess
from tests.raw import RawConnection

KEY = b"marked-key-" + os.urandom(24).hex().encode()
PASSWORD = "marked-password-5b1d"
FIXED = {"tenant": "public", "namespace": "default", "domain": "persistent", "topic": "t", "cluster": "standalone"}


@dataclass(frozen=True)
class Said:
    """A broker with secrets, and everything that it has said so far."""

    broker: BrokerProcess
    token: str
    secrets: dict[str, bytes]
    texts: list[tuple[str, bytes]]

    def ask(self, method: str, path: str, headers: dict[str, str]) -> int:
        """Sends a request, keeps the answer with its headers, and returns the status."""
        request = urllib.request.Request(self.broker.admin_url + path, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                status, text = answer.status, str(answer.headers).encode() + answer.read()
        except urllib.error.HTTPError as error:
            with error:
                status, text = error.code, str(error.headers).encode() + error.read()
        self.texts.append((f"{method} {path}", text))
        return int(status)

    def check(self) -> None:
        """Fails when a secret, or what it looks like in base64, is in anything that was said."""
        for place, text in self.texts:
            for name, secret in self.secrets.items():
                assert secret not in text, f"{name} is in {place}"


def conf_with_secrets(directory: Path) -> tuple[dict[str, str], dict[str, bytes]]:
    """Makes a configuration with a secret in each key that may hold one, and the marks to look for."""
    hashed = bcrypt.using(rounds=4).hash(PASSWORD)
    key, users = (base64.b64encode(each).decode() for each in (KEY, f"user:{hashed}\n".encode()))
    conf = {name: f"marked-{name}" for name in sorted({*PULSAR_KEYS, *KEYS}) if holds_secret(name)}
    secrets = {name: text.encode() for name, text in conf.items()}
    conf |= {
        "authenticationEnabled": "true",
        "authenticationProviders": "token,basic",
        "tokenSecretKey": f"data:;base64,{key}",
        "basicAuthConf": f"data:;base64,{users}",
        "passwordOfNoBroker": "marked-unknown",
    }
    secrets |= {"key": KEY, "key in base64": key.encode(), "users": users.encode(), "hash": hashed.encode()}
    return conf, secrets | {"unknown key": b"marked-unknown", "password": PASSWORD.encode()}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Said]:
    directory = tmp_path_factory.mktemp("secrets")
    settings, secrets = conf_with_secrets(directory)
    conf = directory / "broker.conf"  # a dictionary may have no unknown key
    conf.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
    token = jwt.encode({"sub": "admin"}, KEY, "HS256")
    for name, text in {"token": token, "forged": token[:-4] + "AAAA"}.items():
        secrets[name] = text.encode()
        secrets[f"signature of {name}"] = text.rpartition(".")[2].encode()
    with BrokerProcess(conf=conf) as broker:
        yield Said(broker, token, secrets, [])


def credentials(said: Said) -> list[dict[str, str]]:
    """Lists headers that are good, bad, and no credentials at all."""
    basic = base64.b64encode(f"user:{PASSWORD}".encode()).decode()
    wrong = base64.b64encode(f"nobody:{PASSWORD}".encode()).decode()
    said.secrets.update({"basic": basic.encode(), "wrong basic": wrong.encode()})
    forged = said.secrets["forged"].decode()
    lines = [f"Bearer {said.token}", f"Basic {basic}", f"Bearer {forged}", f"Basic {wrong}"]
    lines += [said.token, f"Basic {said.token}"]
    return [{"Authorization": line} for line in lines] + [
        {"X-Pulsar-Auth-Method-Name": said.token, "Authorization": f"Bearer {said.token}"},
        {"X-Original-Principal": "admin", "Authorization": f"Bearer {forged}"},
        {"Cookie": f"session={said.token}"},
    ]


def test_answers_of_the_admin_api(said: Said) -> None:
    # covers AU-12, SEC-85
    good, *others = credentials(said)
    statuses = set()
    for path, methods in ROUTES:
        for name, value in FIXED.items():
            path = path.replace(f"{{{name}}}", value)
        statuses.update(said.ask(method, f"/{path}", good) for method in methods if method == "GET")
    for path in ("configuration", "configuration/runtime", "configuration/values", "internal-configuration"):
        statuses.add(said.ask("GET", f"/admin/v2/brokers/{path}", good))
    assert 200 in statuses
    assert 401 not in statuses
    for headers in others:
        said.ask("GET", "/admin/v2/tenants", headers)
        said.ask("PUT", "/admin/v2/tenants/x", headers)
        said.ask("GET", "/metrics", headers)
    assert said.ask("GET", f"/admin/v2/tenants?token={said.token}", {}) == 401
    said.check()


def test_answers_on_the_wire(said: Said) -> None:
    # covers AU-12
    parts = urlsplit(said.broker.service_url)
    forged, basic = said.secrets["forged"], f"user:{PASSWORD}".encode()
    shown = [("token", said.token.encode()), ("token", forged), ("basic", basic), ("basic", basic + b"x")]
    for method, data in [*shown, ("tls", forged), ("", forged), (said.token, b""), ("token", b"\xff" + forged)]:
        connection = RawConnection(parts.hostname or "", parts.port or 0)
        fields = {"client_version": "test", "auth_method_name": method, "auth_data": data, "protocol_version": 21}
        connection.send("CONNECT", **fields)
        said.texts.append((f"CONNECT {method[:5]}", repr(connection.next_frame(30)).encode()))
        connection.close()
    said.check()


def test_logs(said: Said) -> None:
    # covers AU-12, SEC-85
    test_answers_of_the_admin_api(said)
    test_answers_on_the_wire(said)
    log = said.broker.log
    assert "tokenSecretKey" not in log
    assert "brokerClientAuthenticationParameters" in log, "keys without effect are named"
    assert 'action="authenticate"' in log
    said.texts.append(("the log", log.encode()))
    for path in said.broker.data_dir.rglob("*"):
        if path.is_file():
            said.texts.append((path.name, path.read_bytes()))
    said.check()


@pytest.mark.parametrize(
    "line",
    [
        "tokenSecretKey=marked-secret!",
        "tokenSecretKey=data:;base64,marked-secret",
        "tokenSecretKey=data:,marked-secret",
        "tokenSecretKey marked-secret",
        "tokenSecretKey=data:;base64,QUFB\n  marked-secret",
        "tokenPublicKey=data:,marked-secret-that-is-no-public-key",
        "tokenPublicKey=marked-secret",
        "authenticationProviders=basic\nbasicAuthConf=marked-secret",
        "authenticationProviders=basic\nbasicAuthConf=data:;base64,marked-secret",
        "authenticationProviders=basic\nbasicAuthConf=data:,marked-secret",
        f"authenticationProviders=basic\nbasicAuthConf={base64.b64encode(b'user marked-secret').decode()}",
        f"authenticationProviders=basic\nbasicAuthConf={base64.b64encode(b'user:marked-secret').decode()}",
    ],
)
def test_errors_of_a_start(tmp_path: Path, line: str) -> None:
    # covers AU-12, SEC-85
    conf = tmp_path / "broker.conf"
    conf.write_text(f"authenticationEnabled=true\nauthenticationProviders=token\n{line}\n")
    ports = ["--port", "0", "--http-port", "0"]
    done = CliRunner().invoke(app, ["broker", "--conf", str(conf), *ports, "--data-dir", str(tmp_path / "data")])
    assert isinstance(done.exception, SystemExit)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "marked-secret" not in done.stderr
    assert base64.b64encode(b"user:marked-secret").decode() not in done.stderr


def test_the_configuration_that_is_shown(tmp_path: Path) -> None:
    # covers SEC-85
    conf, secrets = conf_with_secrets(tmp_path)
    path = tmp_path / "broker.conf"
    path.write_text("".join(f"{key}={value}\n" for key, value in (conf | {"webServicePort": ""}).items()))
    done = CliRunner().invoke(app, ["config", "show", "--conf", str(path)])
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert {"tokenSecretKey=*****", "basicAuthConf=*****", "authenticationEnabled=true", "webServicePort="} < set(lines)
    assert "brokerServicePort=6650" in lines
    assert "# Unknown: passwordOfNoBroker" in lines
    assert not [name for name, secret in secrets.items() if secret.decode() in done.stdout]
    by_default = CliRunner().invoke(app, ["config", "show"]).stdout
    assert "tokenSecretKey=\n" in by_default
    assert parse_properties(by_default) == parse_properties(broker_conf())
    path.write_text("tokenSecretKey marked-secret\n")
    wrong = CliRunner().invoke(app, ["config", "show", "--conf", str(path)])
    assert (wrong.exit_code, wrong.stdout) == (1, "")
    assert wrong.stderr == f"spark-pulsar config: {path}: line 1: want key=value\n"


def test_help_shows_no_value_of_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers AU-12
    monkeypatch.setenv("TOKEN", "marked-secret")
    for words in (["broker"], ["produce"], ["admin"], ["tokens", "show"], ["tokens", "validate"]):
        text = CliRunner().invoke(app, [*words, "--help"]).output
        assert "marked-secret" not in text
        assert "Usage" in text
