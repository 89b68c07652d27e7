"""Everything that the storage does to files goes through its `Disk`, where failpoints see it."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.architecture.sources import parsed

STORAGE = Path(__file__).parents[2] / "spark_pulsar" / "storage"
CHANGES = {
    *("write", "pwrite", "pwritev", "writev", "write_bytes", "write_text", "posix_fallocate"),
    *("fsync", "fdatasync", "sync", "truncate", "ftruncate", "rename", "replace", "renames", "link", "symlink"),
    *("remove", "unlink", "rmdir", "mkdir", "makedirs", "touch", "copyfile", "copy", "move", "backup", "commit"),
}
DISKS = {"disk", "_disk", "_checkpoint", "_copy", "_direct"}
"""The disk, and parts of the storage that use it."""
TEXT = {"replace", "copy"}
"""Also methods of texts and lists: only modules of files count."""
ELSEWHERE = {
    "disk.py": "it is the disk",
    "system_calls.py": "it is what the disk calls",
    "memory.py": "it has no files",
    "repair.py": "it works on a directory that no broker uses, and can be run again",
}
HARMLESS = {
    ("layout.py", "mkdir"): "directories are made before anything is promised",
    ("directory_lock.py", "mkdir"): "the same",
    ("directory_lock.py", "ftruncate"): "the lock's text is for people",
    ("directory_lock.py", "pwrite"): "the same",
    ("read_only.py", "write"): "to a temporary directory",
}


def test_files_are_changed_by_the_disk_alone() -> None:
    # covers DUR-9, DUR-10
    found = set()
    for path in sorted(STORAGE.rglob("*.py")):
        if path.name in ELSEWHERE:
            continue
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
                owner = ast.unparse(node.func.value)
                if node.func.attr in TEXT and owner not in ("os", "shutil"):
                    continue
                if owner.rpartition(".")[2] not in DISKS and (path.name, node.func.attr) not in HARMLESS:
                    found.add(f"{path.name}: {owner}.{node.func.attr}")
    assert not found, "not seen by failpoints"
