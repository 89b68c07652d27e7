"""A hook of the documentation site: links to files outside docs/ lead to the repository."""

import re
from typing import Any

_OUTSIDE = re.compile(r"\]\(\.\./([^)]*)\)")


def on_page_markdown(markdown: str, config: Any, **_rest: Any) -> str:
    """Points links such as `../README.md#example`, which work in the repository, to its pages."""
    return _OUTSIDE.sub(lambda link: f"]({config['repo_url']}/blob/main/{link[1]})", markdown)
