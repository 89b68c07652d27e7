"""Forms of a printed message, for the option `--format`."""

from enum import StrEnum


class MessageFormat(StrEnum):
    """Forms of a printed message."""

    TEXT = "text"
    JSON = "json"
    HEX = "hex"
