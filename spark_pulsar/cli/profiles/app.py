"""`spark-pulsar profile`: addresses and credentials under a name."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from spark_pulsar.cli.access.access import check_admin_url, check_service_url
from spark_pulsar.cli.access.profiles import (
    Profile,
    Profiles,
    check_name,
    check_no_secret,
    place,
    read_profiles,
    write_profiles,
)
from spark_pulsar.cli.frame.help import Commands, examples
from spark_pulsar.cli.output.formats import Output, show
from spark_pulsar.client.authentication.plugins import Authentication
from spark_pulsar.client.errors import NotSupportedByClient

app = Commands(
    help="Addresses and credentials of a Pulsar under a name.",
    epilog=examples("profile add local --service-url pulsar://127.0.0.1:6650", "profile use local"),
)
Name = Annotated[str, typer.Argument(metavar="NAME", autocompletion=lambda: sorted(read_profiles().profiles))]
_COLUMNS: Final = ("name", "current", "service_url", "admin_url", "auth_plugin")


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())


@app.command(
    "add",
    epilog=examples(
        "profile add local --service-url pulsar://127.0.0.1:6650",
        "profile add prod -u pulsar+ssl://pulsar.example.com:6651 --token-file prod.token",
    ),
)
def add(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    service_url: Annotated[str | None, typer.Option("--service-url", "--url", "-u", help="pulsar://HOST:PORT.")] = None,
    admin_url: Annotated[str | None, typer.Option(help="http://HOST:PORT of the admin API.")] = None,
    auth_plugin: Annotated[str | None, typer.Option(help="token, basic, tls, oauth2, or a Java class.")] = None,
    auth_params: Annotated[
        str | None,
        typer.Option(
            help="Its parameters, without a secret: file:///PATH, env:NAME, tlsCertFile:PATH,tlsKeyFile:PATH."
        ),
    ] = None,
    auth_params_file: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="File that holds its parameters.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="File that holds a token; the plugin is token.")
    ] = None,
    tls_trust_cert_path: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Certificates of the authorities to trust (PEM).")
    ] = None,
    tls_allow_insecure: Annotated[bool | None, typer.Option(help="Accept any certificate.", show_default=False)] = None,
    tls_enable_hostname_verification: Annotated[
        bool | None, typer.Option(help="The certificate must name the host.", show_default=False)
    ] = None,
    listener_name: Annotated[str | None, typer.Option(help="Advertised listener of the broker.")] = None,
    client_conf: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="File with the rest, as Pulsar's client.conf.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a profile of this name.")] = False,
) -> None:
    """Add a profile, or replace it with --overwrite. The first one is in use at once."""
    if sum(source is not None for source in (auth_params, auth_params_file, token_file)) > 1:
        raise typer.BadParameter("want one of --auth-params, --auth-params-file and --token-file")
    if token_file is not None:
        if auth_plugin not in (None, "token"):
            raise typer.BadParameter(f"--token-file is for the plugin token, not {auth_plugin}")
        auth_plugin, auth_params = "token", token_file.absolute().as_uri()
    if auth_plugin is None and (auth_params or auth_params_file):
        raise typer.BadParameter("for which plugin? Give --auth-plugin token, basic, tls or oauth2")
    try:
        Authentication.check_supported(auth_plugin or "")
    except NotSupportedByClient as error:
        raise typer.BadParameter(str(error), param_hint="--auth-plugin") from error
    profiles = read_profiles()
    if name in profiles.profiles and not overwrite:
        raise typer.BadParameter(f"there is a profile {name} already: --overwrite replaces it")
    made = Profile(
        service_url=None if service_url is None else check_service_url(service_url),
        admin_url=None if admin_url is None else check_admin_url(admin_url),
        auth_plugin=auth_plugin,
        auth_params=None if auth_params is None else check_no_secret(auth_params),
        auth_params_file=_absolute(auth_params_file),
        tls_trust_cert_path=_absolute(tls_trust_cert_path),
        tls_allow_insecure=tls_allow_insecure,
        tls_enable_hostname_verification=tls_enable_hostname_verification,
        listener_name=listener_name,
        client_conf=_absolute(client_conf),
    )
    if not made.settings():
        raise typer.BadParameter("a profile of nothing: give --service-url, --admin-url or others")
    current = profiles.current if profiles.profiles else name
    write_profiles(Profiles({**profiles.profiles, check_name(name): made}, current))


@app.command("list", epilog=examples("profile list", "profile list -o json"))
def list_profiles(output: Output = None) -> None:
    """List the profiles; `current` is the one in use."""
    profiles = read_profiles()
    rows = [
        {"name": name, "current": name == profiles.current, **profile.settings()}
        for name, profile in profiles.profiles.items()
    ]
    show(rows, output, columns=_COLUMNS)


@app.command("show", epilog=examples("profile show", "profile show prod -o json"))
def show_profile(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The one in use if not given.")] = None,
    output: Output = None,
) -> None:
    """Show a profile."""
    profiles = read_profiles()
    if name is None and not profiles.current:
        raise typer.BadParameter(f"no profile of {place()} is in use: give its name")
    show(profiles.named(name or profiles.current, "profile show").settings(), output)


@app.command("use", epilog=examples("profile use prod", "profile use --none"))
def use(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]")] = None,
    none: Annotated[bool, typer.Option("--none", help="Use none.")] = False,
) -> None:
    """Use a profile where neither --profile nor $SPARK_PULSAR_PROFILE names one."""
    if none == (name is not None):
        raise typer.BadParameter("want the name of a profile, or --none")
    profiles = read_profiles()
    if name is not None:
        profiles.named(name, "profile use")
    write_profiles(replace(profiles, current=name or ""))


@app.command("remove", epilog=examples("profile remove prod", "profile remove staging"))
def remove(name: Name) -> None:
    """Remove a profile."""
    profiles = read_profiles()
    profiles.named(name, "profile remove")
    left = {other: profile for other, profile in profiles.profiles.items() if other != name}
    write_profiles(Profiles(left, "" if profiles.current == name else profiles.current))
