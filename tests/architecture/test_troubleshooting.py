"""Texts that docs/troubleshooting.md quotes are texts that this package writes."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
OF_OTHERS = {
    "DATA_SOURCE_NOT_FOUND",
    "pulsar.DefaultSource",
    "PYTHON_VERSION_MISMATCH",
    "JAVA_GATEWAY_EXITED",
    "JAVA_HOME is not set",
    "ModuleNotFoundError: No module named 'spark_pulsar'",
    "UNSUPPORTED_DATA_SOURCE_SAVE_MODE",
    "certificate verify failed",
    "sources in the checkpoint offsets and now there are",
}
"""Texts of Spark, Python and OpenSSL."""


def quoted() -> list[str]:
    """Lists the texts in the first column of the page's tables."""
    rows = [line.split(" | ")[0] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return [text for row in rows for text in re.findall(r"`([^`]+)`", row)]


def written() -> str:
    """Joins all texts of the package, formatted ones with `…` for each value."""
    texts: list[str] = []
    for path in (ROOT / "spark_pulsar").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                texts.append(
                    "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
                )
    return "\n".join(texts)


def test_quoted_texts_are_written_by_the_package() -> None:
    known, found = written(), [text for text in quoted() if text not in OF_OTHERS]
    assert len(found) > 20
    # what is between two values may be made by several functions: each piece is looked up by itself
    pieces = {
        text: [piece.strip() for piece in re.split(r"…|\[Errno 111\] Connection refused", text)] for text in found
    }
    lost = [text for text, parts in pieces.items() if not all(part in known for part in parts if len(part) > 3)]
    assert lost == []
