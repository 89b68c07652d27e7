"""Access of the command line as options of the connector: each kind of credential, TLS, profiles and `client.conf`."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from spark_pulsar.cli.access.access import broker_access
from spark_pulsar.cli.access.connector_options import connector_access
from spark_pulsar.cli.access.options import AccessOptions
from spark_pulsar.cli.access.profiles import Profile, Profiles, write_profiles
from spark_pulsar.connector.options.parsing import parse_options
from tests.security.certificates import Authority

JAVA = "org.apache.pulsar.client.impl.auth."
PLAIN, SECURE = "pulsar://127.0.0.1:6650", "pulsar+ssl://127.0.0.1:6651"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory without a `client.conf`, and a user without profiles."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


def same(options: AccessOptions) -> Any:
    """The security of the connector's options, which is that of the command's access."""
    url, given = connector_access(options)
    parsed, access = parse_options({**given, "service.url": url, "topic": "t"}), broker_access(options)
    assert parsed.service_url == access.url
    assert parsed.security.tls == access.tls
    assert parsed.security.listener_name == access.listener_name
    assert parsed.security.authentication == access.authentication
    return parsed.security


@pytest.mark.parametrize(
    ("plugin", "params"),
    [
        ("token", "token:s3cret"),
        (f"{JAVA}AuthenticationToken", "file:///run/secrets/token"),
        ("token", "env:A_TOKEN"),
        ("basic", json.dumps({"userId": "me", "password": "s3cret"})),
        ("oauth2", json.dumps({"issuerUrl": "https://issuer", "privateKey": "file:///key", "audience": "pulsar"})),
        (None, None),
    ],
)
def test_credentials(plugin: str | None, params: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers SEC-82
    monkeypatch.setenv("A_TOKEN", "s3cret")
    security = same(AccessOptions(url=PLAIN, auth_plugin=plugin, auth_params=params, listener_name="outside"))
    assert security.authentication.plugin == (plugin or "")


@pytest.mark.parametrize(("insecure", "verify"), [(None, None), (True, None), (None, False)])
def test_tls(authority: Authority, insecure: bool | None, verify: bool | None) -> None:
    # covers SEC-82
    options = AccessOptions(
        url=SECURE,
        tls_trust_cert_path=Path(authority.path),
        tls_allow_insecure=insecure,
        tls_enable_hostname_verification=verify,
    )
    assert same(options).tls.allow_insecure_connection is bool(insecure)


def test_a_certificate_as_credentials(authority: Authority) -> None:
    # covers SEC-82
    certificate, key = authority.issue("127.0.0.1")
    params = f"tlsCertFile:{certificate},tlsKeyFile:{key}"
    security = same(AccessOptions(url=SECURE, auth_plugin="tls", auth_params=params))
    assert security.tls.certificate_file_path == str(certificate)


def test_a_client_conf(authority: Authority, tmp_path: Path) -> None:
    # covers SEC-82
    certificate, key = authority.issue("127.0.0.1")
    conf = tmp_path / "my.conf"
    conf.write_text(
        f"brokerServiceUrl={SECURE}\nauthPlugin={JAVA}AuthenticationToken\nauthParams=token:s3cret\n"
        f"tlsTrustCertsFilePath={authority.path}\ntlsCertificateFilePath={certificate}\ntlsKeyFilePath={key}\n"
        "tlsEnableHostnameVerification=false\nlistenerName=outside\n"
    )
    security = same(AccessOptions(client_conf=conf))
    assert (security.tls.hostname_verification_enable, security.listener_name) == (False, "outside")


def test_a_profile(tmp_path: Path) -> None:
    # covers SEC-82
    (tmp_path / "token").write_text("s3cret")
    profile = Profile(service_url=PLAIN, auth_plugin="token", auth_params=(tmp_path / "token").as_uri())
    write_profiles(Profiles({"prod": profile}, "prod"))
    assert same(AccessOptions(profile="prod")).authentication.credentials().method == "token"


def test_an_address_of_http_is_none_of_tables() -> None:
    with pytest.raises(typer.BadParameter, match="tables are read over pulsar://"):
        connector_access(AccessOptions(url="http://127.0.0.1:8080"))
