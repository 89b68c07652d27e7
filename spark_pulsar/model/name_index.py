"""Names by their namespace, in order, so that a list of topics costs no walk over all topics and no sorting."""

from __future__ import annotations

from typing import Final

_MOST_UNSORTED: Final = 1_024


class _Names:
    """Names of one namespace: those in order, and those added and removed since."""

    __slots__ = ("changed", "count", "ordered")

    def __init__(self) -> None:
        self.ordered: list[str] = []
        """Names, rising. Never changed in place: readers keep it."""
        self.changed: dict[str, bool] = {}
        """Name → True when it is not in `ordered` yet, False when it is still."""
        self.count = 0

    def merge(self) -> None:
        """Merges added and removed names into `ordered`, with a new list."""
        changed = self.changed
        if changed:
            kept = [name for name in self.ordered if name not in changed]
            kept += sorted(name for name, exists in changed.items() if exists)
            kept.sort()  # two runs in order: a merge
            self.ordered, self.changed = kept, {}


def _namespace_of(full: str) -> str:
    return full[: full.rfind("/") + 1]


class NameIndex:
    """Full names of topics by namespace with domain: `persistent://tenant/namespace/`."""

    __slots__ = ("_by_namespace",)

    def __init__(self) -> None:
        self._by_namespace: dict[str, _Names] = {}

    def add(self, full: str) -> None:
        """Adds a name that is not there."""
        namespace = _namespace_of(full)
        names = self._by_namespace.get(namespace)
        if names is None:
            names = self._by_namespace[namespace] = _Names()
        names.count += 1
        if names.changed.pop(full, None) is None:
            names.changed[full] = True
            if len(names.changed) > _MOST_UNSORTED + len(names.ordered) // 4:
                names.merge()

    def remove(self, full: str) -> None:
        """Removes a name that is there."""
        namespace = _namespace_of(full)
        names = self._by_namespace[namespace]
        names.count -= 1
        if not names.count:
            del self._by_namespace[namespace]
        elif names.changed.pop(full, None) is None:
            names.changed[full] = False
            if len(names.changed) > _MOST_UNSORTED + len(names.ordered) // 4:
                names.merge()

    def count(self, namespace: str) -> int:
        """Counts the names of a namespace, `domain://tenant/namespace/`."""
        names = self._by_namespace.get(namespace)
        return 0 if names is None else names.count

    def names(self, namespace: str) -> list[str]:
        """Returns the names of a namespace, rising. The list is never changed later, nor may the caller change it."""
        names = self._by_namespace.get(namespace)
        if names is None:
            return []
        names.merge()
        return names.ordered
