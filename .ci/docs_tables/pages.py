"""Every file of the repository that is made from the package, whole or in part."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from . import admin, benchmarks, configuration, connector
from .markdown import with_tables

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"


def made() -> dict[Path, str]:
    """Returns the texts of these files, by path, as the package makes them today."""
    pages = {page.name: page.read_text() for page in DOCS.glob("*.md")}
    tables = {
        "admin.md": admin.admin_tables(),
        "broker-metrics.md": admin.metrics_tables(),
        "benchmarks.md": benchmarks.tables(),
        "broker-configuration.md": {"keys": configuration.keys_tables()},
        **connector.tables(pages),
    }
    texts = {DOCS / name: with_tables(pages[name], of_page) for name, of_page in tables.items()}
    return {**texts, ROOT / "conf" / "broker.conf": configuration.broker_conf()}


def write() -> None:
    """Writes the files."""
    for path, text in made().items():
        path.write_text(text)
