"""Takes from `os`, `socket` and the like what only Linux has, then runs a broker, or a small read of the connector."""

import builtins
import fcntl
import os
import resource
import select
import signal
import socket
import sys
from typing import Any

OS = """fdatasync posix_fallocate posix_fadvise sched_getaffinity sched_setaffinity sched_getparam eventfd eventfd_read
eventfd_write memfd_create pidfd_open splice copy_file_range getrandom setns unshare preadv pwritev RWF_DSYNC RWF_SYNC
RWF_NOWAIT RWF_HIPRI RWF_APPEND O_DIRECT O_NOATIME O_PATH O_TMPFILE O_RSYNC O_LARGEFILE getxattr setxattr listxattr
removexattr pipe2 sched_setscheduler getresuid getresgid prlimit POSIX_FADV_DONTNEED POSIX_FADV_SEQUENTIAL"""
SOCKET = """SOCK_CLOEXEC SOCK_NONBLOCK MSG_NOSIGNAL MSG_MORE MSG_CMSG_CLOEXEC MSG_ERRQUEUE TCP_KEEPIDLE TCP_USER_TIMEOUT
TCP_QUICKACK TCP_CORK TCP_DEFER_ACCEPT SO_PEERCRED SO_INCOMING_CPU SO_BINDTODEVICE SO_PRIORITY SO_DOMAIN SO_PROTOCOL
AF_NETLINK AF_PACKET AF_VSOCK AF_ALG SO_MARK IP_TRANSPARENT"""
RESOURCE = "prlimit RLIMIT_MSGQUEUE RLIMIT_NICE RLIMIT_RTPRIO RLIMIT_SIGPENDING RUSAGE_THREAD"
SIGNALS = "pidfd_send_signal sigwaitinfo sigtimedwait SIGRTMIN SIGRTMAX SIGPWR SIGPOLL"
SELECT = "epoll EPOLLIN EPOLLOUT EPOLLERR EPOLLHUP EPOLLEXCLUSIVE EPOLL_CLOEXEC"
FCNTL = "F_OFD_SETLK F_OFD_SETLKW F_SETPIPE_SZ F_ADD_SEALS F_SETLEASE F_NOTIFY"


def remove() -> None:
    """Makes this process one of a system that is no Linux, as far as Python shows it."""
    for module, names in (
        *((os, OS), (socket, SOCKET), (resource, RESOURCE)),
        *((signal, SIGNALS), (select, SELECT), (fcntl, FCNTL)),
    ):
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    limited, opened = resource.setrlimit, builtins.open

    def set_limit(kind: int, limits: tuple[int, int]) -> None:
        if kind == resource.RLIMIT_NOFILE and limits[0] > 10_240:
            raise ValueError("current limit exceeds maximum limit")
        limited(kind, limits)

    def open_file(file: Any, *more: Any, **named: Any) -> Any:
        if isinstance(file, str | os.PathLike) and os.fspath(file).startswith(("/proc/", "/sys/")):
            raise FileNotFoundError(2, "No such file or directory", file)
        return opened(file, *more, **named)

    resource.setrlimit, builtins.open = set_limit, open_file


READ = """
from spark_pulsar.connector.source import PulsarDataSource
from pyspark.sql.types import BinaryType, StructField, StructType
options = {"service.url": sys.argv[2], "topic": sys.argv[3]}
reader = PulsarDataSource(options).reader(StructType([StructField("value", BinaryType())]))
batches = [batch for each in reader.partitions() for batch in reader.read(each)]
print(sorted(value.decode() for batch in batches for value in batch.column(0).to_pylist()))
"""

if __name__ == "__main__":
    remove()
    if sys.argv[1] == "read":
        exec(READ)
    else:
        from spark_pulsar.cli.main import app

        app()
