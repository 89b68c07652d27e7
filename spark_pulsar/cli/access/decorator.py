"""Decorators that give a command the options of access to a Pulsar, and hand it one `AccessOptions`.

    @app.command()
    @with_broker_access
    def produce(topic: Topic, *, access: AccessOptions) -> None: ...

Typer reads the options of a command from its signature: the parameter `access` is replaced there by one for each
option.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import wraps
from inspect import Parameter
from typing import Annotated, Any, Final

import typer

from spark_pulsar.cli.access import options as of_access
from spark_pulsar.cli.access.options import AccessOptions
from spark_pulsar.cli.values import ACCESS_PANEL, LogLevel

_SERVICE_URL: Final = Annotated[
    str | None,
    typer.Option(
        "--service-url",
        "--url",
        "-u",
        help="Broker to talk to: pulsar:// or pulsar+ssl://; $PULSAR_SERVICE_URL.",
        show_default=of_access.DEFAULT_SERVICE_URL,
        rich_help_panel=ACCESS_PANEL,
    ),
]
_ADMIN_URL: Final = Annotated[
    str | None,
    typer.Option(
        "--admin-url",
        help="Address of the admin REST API: http:// or https://; $PULSAR_ADMIN_URL.",
        show_default=of_access.DEFAULT_ADMIN_URL,
        rich_help_panel=ACCESS_PANEL,
    ),
]


def _names_of_profiles() -> list[str]:
    from spark_pulsar.cli.access.profiles import read_profiles  # a broker needs none

    return sorted(read_profiles().profiles)


_PROFILE: Final = Annotated[
    str | None,
    typer.Option(
        "--profile",
        help="Profile with the rest, see spark-pulsar profile; $SPARK_PULSAR_PROFILE, or the one in use.",
        autocompletion=_names_of_profiles,
        rich_help_panel=ACCESS_PANEL,
    ),
]
_CREDENTIALS: Final = {
    "auth_plugin": of_access.AuthPlugin,
    "auth_params": of_access.AuthParams,
    "tls_trust_cert_path": of_access.TrustCerts,
    "tls_allow_insecure": of_access.AllowInsecure,
    "tls_enable_hostname_verification": of_access.VerifyHostname,
    "client_conf": of_access.ClientConf,
    "profile": _PROFILE,
    "log_level": of_access.Log,
}
_OF_BROKER: Final = {"url": _SERVICE_URL} | _CREDENTIALS | {"listener_name": of_access.ListenerName}
_OF_ADMIN: Final = {"url": _ADMIN_URL} | _CREDENTIALS


def with_broker_access(work: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of access over the binary protocol, in place of its parameter `access`."""
    return _with_options(work, _OF_BROKER)


def with_admin_access(work: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of access to the admin REST API, in place of its parameter `access`."""
    return _with_options(work, _OF_ADMIN)


def _print_log(level: LogLevel) -> None:
    import logging

    form = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    logging.basicConfig(level=level.upper(), stream=sys.stderr, format=form)


def _with_options(work: Callable[..., None], options: dict[str, Any]) -> Callable[..., None]:
    signature = inspect.signature(work, eval_str=True)
    others = [parameter for name, parameter in signature.parameters.items() if name != "access"]
    more = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in options.items()
    ]

    @wraps(work)
    def command(*args: Any, **values: Any) -> None:
        access = AccessOptions(**{name: values.pop(name) for name in options})
        if access.log_level is not None:
            _print_log(access.log_level)
        work(*args, access=access, **values)

    command.__signature__ = signature.replace(parameters=[*others, *more])  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in (*others, *more)}
    return command
