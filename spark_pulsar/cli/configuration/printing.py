"""`spark-pulsar config show`."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from spark_pulsar.broker.configuration.keys import shown
from spark_pulsar.cli.output.formats import Format, show
from spark_pulsar.server.configuration.reading import KEYS, InvalidConfiguration, load_config, settings_of


def print_configuration(conf: Path | None, output: Format | None = None) -> None:
    """Prints every key that a broker with this file acts upon, by section, with its value; secrets are masked (SEC-85).
    Exit status 1 for a file that the broker would refuse."""
    try:
        config, settings = load_config(conf), settings_of(conf)
    except (InvalidConfiguration, OSError) as error:
        typer.echo(f"spark-pulsar config: {conf}: {error}", err=True)
        raise typer.Exit(1) from error
    lines, section, values = [], "", {}
    for name, key in sorted(KEYS.items(), key=lambda item: _SECTIONS.index(item[1].section)):
        if key.section != section:
            section = key.section
            lines.append(f"# {section}")
        text = settings.get(name, "")
        is_set = name in settings and (text or key.takes_empty)
        values[name] = shown(name, text if is_set else key.default)
        lines.append(f"{name}={values[name]}")
    if output is not None:
        show(values, output)
        return
    if config.unsupported_keys:
        lines.append(f"# Without effect: {', '.join(config.unsupported_keys)}")
    if config.unknown_keys:
        lines.append(f"# Unknown: {', '.join(config.unknown_keys)}")
    sys.stdout.write("".join(f"{line}\n" for line in lines))


_SECTIONS = list(dict.fromkeys(key.section for key in KEYS.values()))
