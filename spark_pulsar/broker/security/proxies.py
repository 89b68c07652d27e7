"""Roles of proxies, and the roles of clients that they name (AU-10)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_pulsar.model.principals import Principal


def flaw_of_roles(principal: Principal, proxy_roles: Collection[str], *, may_name_itself: bool = False) -> str:
    """Returns the flaw of a principal, empty when there is none: a proxy must name the role of its client, which is no
    proxy's, and nobody else may name one. `may_name_itself`: or only its own, as over HTTP."""
    original = principal.original
    if principal.role in proxy_roles:
        if not original:
            return "a proxy that names no role of its client"
        return "a proxy that names the role of a proxy" if original in proxy_roles else ""
    if original and not (may_name_itself and original == principal.role):
        return "a role for somebody else, named by no proxy"
    return ""
