"""Repeated fields of a message type, asked in the way that the installed protobuf knows: each release from 4.25 to 7
lacks one of the two ways, or warns of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

_LABEL_REPEATED: Final = 3


def _by_label(field: Any) -> bool:
    return bool(field.label == _LABEL_REPEATED)


def _by_property(field: Any) -> bool:
    return bool(field.is_repeated)


is_repeated: Final[Callable[[Any], bool]] = _by_property if hasattr(FieldDescriptor, "is_repeated") else _by_label
"""Tells whether a field is a list or a map."""
