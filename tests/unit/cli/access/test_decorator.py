"""Commands that are given the options of access as one value."""

from pathlib import Path
from typing import Annotated

import typer
from typer.testing import CliRunner

from spark_pulsar.cli.access.decorator import with_admin_access, with_broker_access
from spark_pulsar.cli.access.options import AccessOptions

app = typer.Typer()
seen: list[tuple[str, int, AccessOptions]] = []


@app.command()
@with_broker_access
def produce(topic: str, *, access: AccessOptions, count: Annotated[int, typer.Option("-n")] = 1) -> None:
    """Send."""
    seen.append((topic, count, access))


@app.command("list")
@with_admin_access
def list_topics(topic: str, access: AccessOptions) -> None:
    """List."""
    seen.append((topic, 0, access))


def test_options_of_a_broker(tmp_path: Path) -> None:
    conf = tmp_path / "client.conf"
    conf.touch()
    words = ["-u", "pulsar://h:1", "--auth-plugin", "token", "--auth-params", "s", "--tls-allow-insecure"]
    done = CliRunner().invoke(app, ["produce", "t", "-n", "3", *words, "--client-conf", str(conf)])
    assert done.exit_code == 0, done.output
    wanted = AccessOptions(
        url="pulsar://h:1", auth_plugin="token", auth_params="s", tls_allow_insecure=True, client_conf=conf
    )
    assert seen.pop() == ("t", 3, wanted)


def test_options_of_the_admin_api() -> None:
    done = CliRunner().invoke(app, ["list", "t", "--admin-url", "http://h:1"])
    assert done.exit_code == 0, done.output
    assert seen.pop() == ("t", 0, AccessOptions(url="http://h:1"))
