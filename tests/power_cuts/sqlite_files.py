"""Records what SQLite does to its files: a file layer (VFS) between the library and the system's.

SQLite writes through C, where no wrapper of `os` sees it. Its own seam for files does: the system's layer is copied
with four functions replaced, which record and then do what the system's do. The index of the write-ahead log (`-shm`)
is memory that processes share: SQLite syncs it never and makes it anew after a crash, so it is not recorded.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
from pathlib import Path
from typing import Any

from .recorder import Recorder, contents

_OK = 0
_CREATE = 0x4
_JOURNALS = 0x800 | 0x4000 | 0x80000
"""Flags of a rollback journal, a super-journal and a write-ahead log."""

_Pointer, _Int, _Int64 = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
_IO_METHODS = 18
"""Functions of an open file, in version 3 of the layer."""
_CLOSE, _WRITE, _TRUNCATE, _SYNC = 0, 2, 3, 4


class _Vfs(ctypes.Structure):
    _fields_ = (
        ("version", _Int),
        ("file_bytes", _Int),
        ("max_path", _Int),
        ("next", _Pointer),
        ("name", ctypes.c_char_p),
        ("data", _Pointer),
        ("open", _Pointer),
        ("delete", _Pointer),
        ("others", _Pointer * 14),
    )


class _Methods(ctypes.Structure):
    _fields_ = (("version", _Int), ("calls", _Pointer * _IO_METHODS))


class _File(ctypes.Structure):
    _fields_ = (("methods", ctypes.POINTER(_Methods)),)


_Open = ctypes.CFUNCTYPE(_Int, _Pointer, _Pointer, ctypes.POINTER(_File), _Int, ctypes.POINTER(_Int))
_Delete = ctypes.CFUNCTYPE(_Int, _Pointer, ctypes.c_char_p, _Int)
_Close = ctypes.CFUNCTYPE(_Int, _Pointer)
_Write = ctypes.CFUNCTYPE(_Int, _Pointer, _Pointer, _Int, _Int64)
_Truncate = ctypes.CFUNCTYPE(_Int, _Pointer, _Int64)
_Sync = ctypes.CFUNCTYPE(_Int, _Pointer, _Int)


def library() -> str | None:
    """The shared library that Python's `sqlite3` uses; None when SQLite is built into Python."""
    assert sqlite3.sqlite_version
    lines = Path("/proc/self/maps").read_text().splitlines()
    return next((line.split()[-1] for line in lines if "libsqlite3" in line), None)


class SqliteFiles:
    """The layer. It stays registered, and this object alive, as long as the process."""

    def __init__(self, recorder: Recorder, path: str) -> None:
        self._recorder = recorder
        sqlite = ctypes.CDLL(path)
        sqlite.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
        sqlite.sqlite3_vfs_register.argtypes = (ctypes.POINTER(_Vfs), _Int)
        self._system = sqlite.sqlite3_vfs_find(None)
        self._methods: dict[int, _Methods] = {}
        self._of_file: dict[int, Any] = {}
        self._names: dict[int, str] = {}
        self._unnamed: dict[int, str] = {}
        """Journals whose first sync also syncs their directory, by file."""
        system = self._system.contents
        self._open = ctypes.cast(system.open, _Open)
        self._delete = ctypes.cast(system.delete, _Delete)
        self._kept = (
            _Open(self._opened), _Delete(self._deleted), _Close(self._closed), _Write(self._wrote),
            _Truncate(self._truncated), _Sync(self._synced),
        )  # fmt: skip
        vfs = _Vfs()
        ctypes.memmove(ctypes.byref(vfs), self._system, ctypes.sizeof(_Vfs))
        vfs.name = b"recorded"
        vfs.open = ctypes.cast(self._kept[0], _Pointer)
        vfs.delete = ctypes.cast(self._kept[1], _Pointer)
        self._vfs = vfs
        assert sqlite.sqlite3_vfs_register(ctypes.byref(vfs), 1) == _OK

    def _opened(self, _: int, path: int | None, file: Any, flags: int, out: Any) -> int:
        # The system's layer keeps the pointer itself.
        name = None if path is None else ctypes.string_at(path)
        inside = None if name is None else self._recorder.inside(os.fsdecode(name))
        is_new = name is not None and not os.path.exists(name)
        result = int(self._open(ctypes.cast(self._system, _Pointer), path, file, flags, out))
        methods = ctypes.cast(file.contents.methods, ctypes.POINTER(_Methods))  # not a view of what is replaced below
        if result != _OK or inside is None or not methods:
            return result
        address = ctypes.addressof(file.contents)
        made = os.O_CREAT if flags & _CREATE else 0
        self._names[address] = inside
        if made and is_new and flags & _JOURNALS:
            self._unnamed[address] = os.path.dirname(inside) or "."
        self._recorder.note("open", address, inside, made)
        self._of_file[address] = methods
        file.contents.methods = ctypes.pointer(self._with_ours(methods))
        return result

    def _with_ours(self, methods: Any) -> _Methods:
        """The system's functions of an open file, four of them replaced."""
        address = ctypes.addressof(methods.contents)
        if address not in self._methods:
            ours = _Methods()
            ctypes.memmove(ctypes.byref(ours), methods, ctypes.sizeof(_Methods))
            for at, call in zip((_CLOSE, _WRITE, _TRUNCATE, _SYNC), self._kept[2:], strict=True):
                ours.calls[at] = ctypes.cast(call, _Pointer).value
            self._methods[address] = ours
        return self._methods[address]

    def _call(self, file: int, at: int, kind: Any, *args: Any) -> int:
        return int(ctypes.cast(self._of_file[file].contents.calls[at], kind)(file, *args))

    def _recorded(self, file: int, at: int, kind: Any, args: tuple[Any, ...], name: str, *what: Any) -> int:
        number = self._recorder.begin(name, file, *what)
        result = self._call(file, at, kind, *args)
        self._recorder.note("done" if result == _OK else "failed", number)
        return result

    def _closed(self, file: int) -> int:
        self._recorder.note("close", file)
        methods = self._of_file.pop(file)
        self._unnamed.pop(file, None)
        # The system looks at its own table while it closes.
        _File.from_address(file).methods = methods
        return int(ctypes.cast(methods.contents.calls[_CLOSE], _Close)(file))

    def _wrote(self, file: int, data: int, size: int, offset: int) -> int:
        noted = contents(ctypes.string_at(data, size))
        return self._recorded(file, _WRITE, _Write, (data, size, offset), "write", offset, noted, False)

    def _truncated(self, file: int, size: int) -> int:
        return self._recorded(file, _TRUNCATE, _Truncate, (size,), "truncate", size)

    def _synced(self, file: int, flags: int) -> int:
        directory = self._unnamed.get(file)
        if directory is None:
            return self._recorded(file, _SYNC, _Sync, (flags,), "sync")
        number = self._recorder.begin("sync", directory)
        result = self._recorded(file, _SYNC, _Sync, (flags,), "sync")
        self._recorder.note("done" if result == _OK else "failed", number)
        if result == _OK:
            del self._unnamed[file]
        return result

    def _deleted(self, _: int, name: bytes, sync_directory: int) -> int:
        inside = self._recorder.inside(os.fsdecode(name))
        system = ctypes.cast(self._system, _Pointer)
        if inside is None or not os.path.exists(name):
            return int(self._delete(system, name, sync_directory))
        number = self._recorder.begin("remove", inside)
        synced = self._recorder.begin("sync", os.path.dirname(inside) or ".") if sync_directory else None
        result = int(self._delete(system, name, sync_directory))
        self._recorder.note("done" if result == _OK else "failed", number)
        if synced is not None:
            self._recorder.note("done" if result == _OK else "failed", synced)
        return result
