#!/usr/bin/env python3
"""Sets keys of configuration files from the environment, as the script of this name in Apache Pulsar's image does.

    PULSAR_PREFIX_maxMessageSize=1048576 apply-config-from-env.py conf/standalone.conf

`PULSAR_PREFIX_KEY` sets a key, or adds it. A variable that has the name of a key in the file, a commented one included,
sets it without the prefix.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

PREFIX = "PULSAR_PREFIX_"
SECRETS = re.compile("secret|password|params$|authenticationparameters$|^basicauthconf$", re.IGNORECASE)
KEY = re.compile(r"\s*#?\s*([A-Za-z][\w.-]*)\s*=")


def settings_of(environment: Mapping[str, str], known: set[str]) -> dict[str, str]:
    """Picks the keys that the environment sets; with the prefix wins."""
    plain = {name: value for name, value in environment.items() if name in known}
    prefixed = {name.removeprefix(PREFIX): value for name, value in environment.items() if name.startswith(PREFIX)}
    settings = {name: value.strip() for name, value in (plain | prefixed).items() if name}
    for name, value in settings.items():
        if "\n" in value or "\r" in value or "=" in name or not name.strip():
            sys.exit(f"apply-config-from-env: {name}: want one line")
    return settings


def apply(path: Path, environment: Mapping[str, str]) -> None:
    """Writes the keys of the environment into one file."""
    lines = path.read_text().splitlines()
    # The last line of a key counts, as it does for the broker; a comment only where there is no other.
    places: dict[str, int] = {}
    for number, line in sorted(enumerate(lines), key=lambda each: (not each[1].lstrip().startswith("#"), each[0])):
        match = KEY.match(line)
        if match:
            places[match[1]] = number
    for name, value in sorted(settings_of(environment, set(places)).items()):
        line = f"{name}={value}"
        if name in places:
            lines[places[name]] = line
        else:
            lines.append(line)
        print(f"{path}: {name}={'*****' if SECRETS.search(name) else value}")  # noqa: T201
    path.write_text("".join(f"{line}\n" for line in lines))


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description="Sets keys of configuration files from the environment.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    for path in parser.parse_args().files:
        try:
            apply(path, os.environ)
        except OSError as error:
            sys.exit(f"apply-config-from-env: {path}: {error.strerror}")


if __name__ == "__main__":
    main()
