r"""Text that a terminal prints and never obeys: control characters become escapes, as JSON writes them (SEC-86).

Names, keys, properties, payloads and reasons come from strangers. In them may be sequences that move the cursor, rename
the window or fill the clipboard (ESC, the C1 controls U+0080 to U+009F), that end a line, or that turn the order of
the text (bidirectional overrides). `\u001b` is valid within a string of JSON, too, and means the same there.
"""

import re
from typing import Final

_ELSEWHERE: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
"""C0 but tab and new line, DEL, C1, line and paragraph separators, bidirectional overrides and isolates, and halves of
UTF-16 pairs, which no encoding writes."""
_CONTROLS: Final = re.compile(f"[{_ELSEWHERE}]")
_CONTROLS_OR_BREAKS: Final = re.compile(f"[\t\n{_ELSEWHERE}]")


def printable(text: str) -> str:
    """Returns the text with each control character but tab and new line as `\\uXXXX`."""
    return _CONTROLS.sub(_escaped, text)


def one_line(text: str) -> str:
    """Returns the text as a part of one line: tabs and new lines are escaped, too."""
    return _CONTROLS_OR_BREAKS.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
