"""Profiles: addresses, credentials and TLS of a Pulsar under a name, in a file of the user (SEC-82).

A profile has no secret: it names the file or the variable that has it.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

import typer

from spark_pulsar.cli.access.options import AccessOptions

VARIABLE: Final = "SPARK_PULSAR_PROFILE"
"""Variable that names the profile; empty is none, not even the one in use."""
MAX_PARAMS_BYTES: Final = 64 * 1024
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The settings of one profile, None for those that it leaves to the environment and `client.conf`."""

    service_url: str | None = None
    admin_url: str | None = None
    auth_plugin: str | None = None
    auth_params: str | None = None
    """Parameters that are no secret, or `file:///PATH` or `env:NAME` of one."""
    auth_params_file: str | None = None
    """File that holds the parameters."""
    tls_trust_cert_path: str | None = None
    tls_allow_insecure: bool | None = None
    tls_enable_hostname_verification: bool | None = None
    listener_name: str | None = None
    client_conf: str | None = None

    def settings(self) -> dict[str, str | bool]:
        """Returns the settings of the profile."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not None}

    def fill(self, options: AccessOptions, url: str | None) -> AccessOptions:
        """Returns options that were given, and the profile's for others; `url` is the profile's address."""
        trusted, conf = self.tls_trust_cert_path, self.client_conf
        of_profile: dict[str, Any] = {
            "url": url,
            "tls_trust_cert_path": None if trusted is None else Path(trusted),
            "tls_allow_insecure": self.tls_allow_insecure,
            "tls_enable_hostname_verification": self.tls_enable_hostname_verification,
            "listener_name": self.listener_name,
            "client_conf": None if conf is None else Path(conf),
        }
        if options.auth_plugin is None and self.auth_plugin is not None:
            of_profile["auth_plugin"] = self.auth_plugin
            of_profile["auth_params"] = self._params()
        return replace(options, **{name: value for name, value in of_profile.items() if getattr(options, name) is None})

    def _params(self) -> str:
        if self.auth_params_file is None:
            return self.auth_params or ""
        try:
            with open(self.auth_params_file, encoding="utf-8") as file:
                return file.read(MAX_PARAMS_BYTES).strip()
        except (OSError, UnicodeDecodeError) as error:
            raise typer.BadParameter(f"auth_params_file of the profile cannot be read: {error}") from error


_NO_PROFILE: Final = Profile()
_FLAGS: Final = ("tls_allow_insecure", "tls_enable_hostname_verification")
_KNOWN: Final = {field.name: bool if field.name in _FLAGS else str for field in fields(Profile)}


@dataclass(frozen=True, slots=True)
class Profiles:
    """All profiles of a user, and the name of the one in use."""

    profiles: Mapping[str, Profile] = field(default_factory=dict)
    current: str = ""

    def named(self, name: str, source: str) -> Profile:
        """Returns a profile. Raises typer.BadParameter, which says where the name is from."""
        try:
            return self.profiles[name]
        except KeyError:
            known = f"; there are {', '.join(sorted(self.profiles))}" if self.profiles else "; there are none"
            raise typer.BadParameter(f"{source}: no profile {name!r} in {place()}{known}") from None


def place() -> Path:
    """Returns the path of the user's file of profiles."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or _home() / ".config") / "spark-pulsar" / "profiles.toml"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # a user that the container does not know; Docker says that its home is the root
        return Path("/")


def profile_of(options: AccessOptions) -> Profile:
    """Returns the profile of --profile, of $SPARK_PULSAR_PROFILE, or the one in use; an empty one without any."""
    if options.profile:
        return read_profiles().named(options.profile, "--profile")
    named = os.environ.get(VARIABLE)
    if named == "" or not place().exists():
        return _NO_PROFILE if not named else Profiles().named(named, f"${VARIABLE}")
    profiles = read_profiles()
    if named:
        return profiles.named(named, f"${VARIABLE}")
    return profiles.named(profiles.current, "the profile in use") if profiles.current else _NO_PROFILE


def read_profiles() -> Profiles:
    """Reads the user's file. Raises typer.BadParameter."""
    path = place()
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Profiles()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise typer.BadParameter(f"{path} cannot be read: {error}") from error
    tables = document.get("profiles", {})
    if not isinstance(tables, dict) or not isinstance(document.get("current", ""), str):
        raise typer.BadParameter(f"{path}: want [profiles.NAME] tables and the name `current`")
    return Profiles({name: _profile(path, name, table) for name, table in tables.items()}, document.get("current", ""))


def _profile(path: Path, name: str, table: Any) -> Profile:
    if not isinstance(table, dict):
        raise typer.BadParameter(f"{path}: profile {name}: want a table [profiles.{name}]")
    for key, value in table.items():
        if not isinstance(value, _KNOWN.get(key, ())):
            known = f"want {_KNOWN[key].__name__}" if key in _KNOWN else f"known are {', '.join(_KNOWN)}"
            raise typer.BadParameter(f"{path}: profile {name}: {key}: {known}")
    return Profile(**table)


def write_profiles(profiles: Profiles) -> None:
    """Writes the user's file, for its owner alone."""
    path = place()
    lines = [f"current = {_toml(profiles.current)}\n"] if profiles.current else []
    for name, profile in profiles.profiles.items():
        lines.append(f"\n[profiles.{_toml(name)}]\n")
        lines += [f"{key} = {_toml(value)}\n" for key, value in profile.settings().items()]
    new = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new.unlink(missing_ok=True)
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write("".join(lines))
        new.replace(path)
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be written: {error}") from error


def _toml(value: str | bool) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def check_name(name: str) -> str:
    """Returns a name that a profile may have. Raises typer.BadParameter."""
    if not _NAME.fullmatch(name):
        raise typer.BadParameter(f"want a name of letters, digits, _, - and dots, got {name!r}")
    return name


def check_no_secret(params: str) -> str:
    """Returns parameters of authentication that hold no secret themselves. Raises typer.BadParameter."""
    if params.startswith(("file:", "env:")) or _has_only_references(params):
        return params
    raise typer.BadParameter(
        "a profile keeps no secret: give file:///PATH or env:NAME of a token, or the name of a file that holds the "
        "parameters by --auth-params-file",
        param_hint="--auth-params",
    )


def _has_only_references(params: str) -> bool:
    """Returns whether parameters name files alone: certificate and key of `tls`, the private key of `oauth2`."""
    try:
        parameters = (
            json.loads(params) if params.startswith("{") else dict(pair.split(":", 1) for pair in params.split(","))
        )
    except ValueError:
        return False
    if not isinstance(parameters, dict):
        return False
    is_file = str(parameters.get("privateKey", parameters.get("private_key", ""))).startswith(("file:", "/"))
    return parameters.keys() == {"tlsCertFile", "tlsKeyFile"} or (is_file and parameters.keys() <= _OAUTH2)


_OAUTH2: Final = {"type", "issuerUrl", "issuer_url", "privateKey", "private_key", "audience", "scope"}
