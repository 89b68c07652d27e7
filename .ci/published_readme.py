"""README of the wheel: links and pictures with the address of the repository, since those of a folder lead nowhere on a
page of the package index."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

REPOSITORY = "spark-pulsar/spark-pulsar"
TARGET = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#)([^)\s]+)\)")


def published(text: str, version: str) -> str:
    """Returns the text with absolute links, to the tag of the version."""

    def absolute(match: re.Match[str]) -> str:
        bang, words, target = match.groups()
        host = "https://raw.githubusercontent.com" if bang else "https://github.com"
        place = f"v{version}" if bang else f"blob/v{version}"
        return f"{bang}[{words}]({host}/{REPOSITORY}/{place}/{target})"

    return TARGET.sub(absolute, text)


class PublishedReadme(MetadataHookInterface):
    """What hatchling calls for the field `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Sets the field."""
        text = published(Path(self.root, "README.md").read_text(), metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
