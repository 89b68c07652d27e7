"""Addresses, credentials and TLS of the commands: options, `client.conf`, and what is sent."""

import base64
import json
import os
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner, Result

from spark_pulsar.cli.access.access import Access, broker_access
from spark_pulsar.cli.access.decorator import with_admin_access, with_broker_access
from spark_pulsar.cli.access.options import AccessOptions
from spark_pulsar.cli.main import app
from tests.security.certificates import Authority
from tests.unit.cli.answering_server import AnsweringServer
from tests.unit.client.authentication.issuer import Issuer, key_file

JAVA = "org.apache.pulsar.client.impl.auth."
SECRET = "s3cr3t-of-this-test"


@pytest.fixture
def server() -> Iterator[AnsweringServer]:
    one = AnsweringServer()
    yield one
    one.close()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


def secured_server(authority: Authority, host: str) -> AnsweringServer:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue(host))
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(authority.path)
    return AnsweringServer(context)


@pytest.fixture
def secured(authority: Authority) -> Iterator[AnsweringServer]:
    one = secured_server(authority, "127.0.0.1")
    yield one
    one.close()


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory without a `client.conf`."""
    monkeypatch.chdir(tmp_path)


def run(*options: str | Path, env: dict[str, str] | None = None) -> Result:
    done = CliRunner().invoke(app, ["admin", *map(str, options), "tenants", "list"], env=env)
    assert SECRET not in done.output
    return done


def listed(*options: str | Path, env: dict[str, str] | None = None) -> None:
    done = run(*options, env=env)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "public\n", "")


def refusal(*options: str | Path, status: int = 2) -> str:
    done = run(*options)
    assert (done.exit_code, done.stdout) == (status, "")
    words = [word for word in done.stderr.split() if word != "│"]
    return " ".join(words).replace("-- ", "--").replace("--auth- ", "--auth-")


@pytest.mark.parametrize("plugin", ["token", "Token", f"{JAVA}AuthenticationToken"])
@pytest.mark.parametrize("params", [f"token:{SECRET}", SECRET, f'{{"token":"{SECRET}"}}', "file", "env:A_TOKEN"])
def test_a_token(
    server: AnsweringServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin: str, params: str
) -> None:
    # covers SEC-83
    (tmp_path / "token").write_text(f"{SECRET}\n")
    monkeypatch.setenv("A_TOKEN", SECRET)
    given = (tmp_path / "token").as_uri() if params == "file" else params
    listed("--admin-url", server.url, "--auth-plugin", plugin, "--auth-params", given)
    assert server.headers["Authorization"] == f"Bearer {SECRET}"
    assert server.headers["X-Pulsar-Auth-Method-Name"] == "token"


def test_a_user_and_a_password(server: AnsweringServer) -> None:
    params = json.dumps({"userId": "me", "password": SECRET})
    listed("--admin-url", server.url, "--auth-plugin", "basic", "--auth-params", params)
    assert server.headers["Authorization"] == f"Basic {base64.b64encode(f'me:{SECRET}'.encode()).decode()}"


def test_no_credentials(server: AnsweringServer) -> None:
    listed("--admin-url", server.url)
    assert not any("auth" in name.lower() for name in server.headers)
    server.answer = 401, json.dumps({"reason": "Authentication required"})
    text = refusal("--admin-url", server.url, status=1)
    assert "no credentials were given: --auth-plugin and --auth-params, or authPlugin and authParams" in text
    text = refusal("--admin-url", server.url, "--auth-plugin", "token", "--auth-params", SECRET, status=1)
    assert "the broker does not accept the credentials of --auth-plugin token" in text
    reason = "This operation requires super-user access"
    server.answer = 401, json.dumps({"reason": reason})
    given = ("--auth-plugin", "token", "--auth-params", SECRET)
    assert refusal("--admin-url", server.url, *given, status=1) == f"spark-pulsar: {reason}"


def test_settings_of_a_client_conf(
    server: AnsweringServer, secured: AnsweringServer, authority: Authority, tmp_path: Path
) -> None:
    # covers SEC-82
    conf = tmp_path / "my.conf"
    conf.write_text(
        f"# of Pulsar\n\nwebServiceUrl={secured.url}/\nauthPlugin={JAVA}AuthenticationToken\n"
        f"authParams=token:{SECRET}\ntlsTrustCertsFilePath={authority.path}\nuseKeyStoreTls=false\ntlsTrustStoreType=JKS\n"
    )
    listed("--client-conf", conf)
    assert secured.headers["Authorization"] == f"Bearer {SECRET}"
    listed(env={"PULSAR_CLIENT_CONF": str(conf)})
    # Options and variables win.
    listed("--client-conf", conf, "--admin-url", server.url, "--auth-params", "token:other")
    assert server.headers["Authorization"] == "Bearer other"
    listed("--client-conf", conf, env={"PULSAR_ADMIN_URL": server.url})
    assert server.headers["Authorization"] == f"Bearer {SECRET}"
    # The one in its place is read when no other is named.
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "client.conf").write_text(f"webServiceUrl={server.url}\n")
    listed()
    listed("--client-conf", conf)
    assert (len(server.asked), len(secured.asked)) == (3, 3)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("useKeyStoreTls=true", "useKeyStoreTls is not supported: certificates are read from PEM files"),
        ("tlsAllowInsecureConnection=perhaps", "tlsAllowInsecureConnection=perhaps: want true or false"),
        (f"authParams {SECRET}", "line 1: want key=value"),
        (f"authParams=token:{SECRET}", "authParams of"),
        ("authPlugin=AuthenticationKerberos", "'AuthenticationKerberos' is not supported"),
    ],
)
def test_a_client_conf_that_cannot_be_used(tmp_path: Path, line: str, said: str) -> None:
    # covers SEC-82
    conf = tmp_path / "my.conf"
    conf.write_text(line)
    assert said in refusal("--client-conf", conf)


def test_an_unknown_key_is_named(server: AnsweringServer, tmp_path: Path) -> None:
    conf = tmp_path / "my.conf"
    conf.write_text(f"webServiceUrl={server.url}\nauthParam={SECRET}\n")
    assert "unknown key authParam, ignored: did you mean authParams?" in run("--client-conf", conf).stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file away")
def test_a_client_conf_of_another_user_is_not_taken_by_itself(server: AnsweringServer, tmp_path: Path) -> None:
    # covers SEC-82
    (tmp_path / "conf").mkdir()
    conf = tmp_path / "conf" / "client.conf"
    conf.write_text(f"webServiceUrl={server.url}\n")
    os.chown(conf, 12_345, 12_345)
    assert "belongs to another user: --client-conf must name it to have it read" in refusal()
    assert server.asked == []
    listed("--client-conf", conf)


def test_a_token_of_an_issuer(server: AnsweringServer, tmp_path: Path) -> None:
    # covers SEC-83
    issuer = Issuer()
    try:
        given = {"issuerUrl": issuer.url, "privateKey": key_file(tmp_path), "audience": "urn:pulsar"}
        listed("--admin-url", server.url, "--auth-plugin", "oauth2", "--auth-params", json.dumps(given))
        assert server.headers["Authorization"].startswith("Bearer ")
    finally:
        issuer.close()


def test_certificates_are_checked(secured: AnsweringServer, authority: Authority, tmp_path: Path) -> None:
    # covers SEC-83
    assert "authorities to trust are given by --tls-trust-cert-path" in refusal("--admin-url", secured.url, status=1)
    listed("--admin-url", secured.url, "--tls-trust-cert-path", authority.path)
    listed("--admin-url", secured.url, "--tls-allow-insecure")
    assert "is no readable file" in refusal(
        "--admin-url", secured.url, "--tls-trust-cert-path", tmp_path / "none", status=1
    )
    other = secured_server(authority, "other.test")
    try:
        trusting = ("--admin-url", other.url, "--tls-trust-cert-path", authority.path)
        assert "IP address mismatch" in refusal(*trusting, status=1)
        listed(*trusting, "--no-tls-enable-hostname-verification")
    finally:
        other.close()


def test_a_client_certificate(secured: AnsweringServer, authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.issue(common_name="me")
    trusting = ("--admin-url", secured.url, "--tls-trust-cert-path", authority.path)
    listed(*trusting, "--auth-plugin", "tls", "--auth-params", f"tlsCertFile:{certificate},tlsKeyFile:{key}")
    assert ((("commonName", "me"),),)[0] in secured.certificates[-1]["subject"]
    assert secured.headers["X-Pulsar-Auth-Method-Name"] == "tls"
    conf = tmp_path / "my.conf"
    conf.write_text(f"tlsCertificateFilePath={certificate}\ntlsKeyFilePath={key}\n")
    listed(*trusting, "--client-conf", conf)
    assert secured.certificates[-1] is not None
    assert "Authorization" not in secured.headers
    assert "needs an address of TLS and a certificate" in refusal(*trusting, "--auth-plugin", "tls")


def test_credentials_do_not_leave_tls(secured: AnsweringServer, server: AnsweringServer, authority: Authority) -> None:
    # covers SEC-83
    given = ("--tls-trust-cert-path", authority.path, "--auth-plugin", "token", "--auth-params", f"token:{SECRET}")
    secured.answer, secured.sent_headers = (307, ""), {"Location": f"{server.url}/admin/v2/tenants"}
    assert f"it redirects from HTTPS to {server.url}" in refusal("--admin-url", secured.url, *given, status=1)
    assert server.asked == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--auth-params", SECRET), "--auth-params: for which plugin? Give --auth-plugin token, basic, tls or oauth2"),
        (("--auth-plugin", "token"), "--auth-params of the plugin token (none were given): expected token:TEXT"),
        (("--auth-plugin", "basic", "--auth-params", f"me:{SECRET}"), "--auth-params of the plugin basic: expected"),
        (("--auth-plugin", "x.Kerberos"), "the authentication plugin 'x.Kerberos' is not supported"),
        (("--tls-allow-insecure",), "--tls-allow-insecure needs TLS: https:// or pulsar+ssl://"),
        (("--admin-url", f"http://me:{SECRET}@host:8080"), "a user and a password do not belong there"),
        (("--admin-url", "pulsar://host"), "want http://HOST:PORT, got 'pulsar://host'"),
    ],
)
def test_refusals(options: tuple[str, ...], said: str) -> None:
    assert said in refusal(*options)


def test_a_token_file_that_is_missing(server: AnsweringServer) -> None:
    given = ("--auth-plugin", "token", "--auth-params", "file:///no/such/token")
    text = refusal("--admin-url", server.url, *given, status=1)
    assert "/no/such/token: No such file or directory; credentials are set by --auth-params" in text
    assert server.asked == []


def test_settings_of_the_official_client(tmp_path: Path, authority: Authority) -> None:
    # covers SEC-82, SEC-83
    conf = tmp_path / "my.conf"
    conf.write_text(
        "brokerServiceUrl=pulsar+ssl://host:6651/\nlistenerName=outside\ntlsEnableHostnameVerification=false\n"
        f"authPlugin=token\nauthParams=token:{SECRET}\n"
    )
    access = broker_access(AccessOptions(client_conf=conf, tls_trust_cert_path=authority.path))
    settings = access.client_settings()
    assert access.url == "pulsar+ssl://host:6651"
    assert settings.pop("authentication") is not None
    assert settings == {
        "listener_name": "outside",
        "tls_trust_certs_file_path": str(authority.path),
        "tls_allow_insecure_connection": False,
        "tls_validate_hostname": False,
    }
    by_default = broker_access(AccessOptions(url="pulsar+ssl://host", client_conf=None)).client_settings()
    assert by_default["tls_validate_hostname"] is True
    assert broker_access(AccessOptions()) == Access("pulsar://127.0.0.1:6650", *_nothing(access))
    assert SECRET not in repr(access)


def _nothing(access: Access) -> tuple[Any, Any]:
    return type(access.authentication)(), type(access.tls)()


tried = typer.Typer()
seen: list[tuple[str, int, AccessOptions]] = []


@tried.command()
@with_broker_access
def produce(topic: str, *, access: AccessOptions, count: Annotated[int, typer.Option("-n")] = 1) -> None:
    """Send."""
    seen.append((topic, count, access))


@tried.command("list")
@with_admin_access
def list_topics(topic: str, access: AccessOptions) -> None:
    """List."""
    seen.append((topic, 0, access))


def test_options_of_a_broker(tmp_path: Path) -> None:
    conf = tmp_path / "client.conf"
    conf.touch()
    words = ["-u", "pulsar://h:1", "--auth-plugin", "token", "--auth-params", "s", "--tls-allow-insecure"]
    done = CliRunner().invoke(tried, ["produce", "t", "-n", "3", *words, "--client-conf", str(conf)])
    assert done.exit_code == 0, done.output
    wanted = AccessOptions(
        url="pulsar://h:1", auth_plugin="token", auth_params="s", tls_allow_insecure=True, client_conf=conf
    )
    assert seen.pop() == ("t", 3, wanted)


def test_options_of_the_admin_api() -> None:
    done = CliRunner().invoke(tried, ["list", "t", "--admin-url", "http://h:1"])
    assert done.exit_code == 0, done.output
    assert seen.pop() == ("t", 0, AccessOptions(url="http://h:1"))
