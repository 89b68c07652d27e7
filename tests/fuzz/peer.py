"""A TCP peer without manners: writes any bytes in any pieces, reads what comes, and leaves as it likes."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import deque
from random import Random
from typing import Final

from spark_pulsar.wire import pulsar_api_pb2 as api
from tests.fuzz.door import Door
from tests.raw import Frame, command_bytes, fields_of, frame_bytes, parse_frame

_RECORD_S: Final = 0.02
"""Time for the rest of a record of TLS whose beginning has come."""
_MAX_KEPT: Final = 1_000


class Finding(AssertionError):
    """A misbehaviour of the broker; the message tells it."""


class Peer:
    """One connection.

    Attributes:
        closed: The broker has closed it.
        received: The last frames that came, the oldest first.
    """

    def __init__(self, door: Door) -> None:
        self.closed = False
        self.received: deque[Frame] = deque(maxlen=_MAX_KEPT)
        self._bytes = bytearray()
        self._put_back = b""
        self._socket = door.connect()
        self._timeout_s = self._socket.gettimeout()

    def write(self, data: bytes) -> None:
        """Writes bytes; a broker that has closed, or that reads no more, is no error here."""
        try:
            self._socket.sendall(data)
        except TimeoutError:
            pass
        except OSError:
            self.closed = True

    def write_in_pieces(self, choices: Random, data: bytes) -> None:
        """Writes bytes in one piece, in several, or each by itself."""
        way = choices.randrange(4)
        cuts = sorted(choices.randrange(len(data) + 1) for _ in range((0, 0, 3, 40)[way]))
        for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            self.write(data[start:end])

    def read(self, wait_s: float) -> bytes:
        """Reads what comes within this time, and nothing more; empty when nothing does, or the broker closed."""
        if self._put_back:
            data, self._put_back = self._put_back, b""
            return data
        if self.closed or not select.select([self._socket], [], [], wait_s)[0]:
            return b""
        try:
            # What has come may be of TLS alone, or a part of a record.
            self._socket.settimeout(max(wait_s, _RECORD_S))
            data = self._socket.recv(1 << 20)
        except TimeoutError:
            return b""
        except OSError:
            data = b""
        finally:
            self._socket.settimeout(self._timeout_s)
        self.closed = not data
        return data

    def put_back(self, data: bytes) -> None:
        """Keeps bytes that were read too early for the next read."""
        self._put_back = data + self._put_back

    def read_frames(self, wait_s: float) -> None:
        """Reads the frames that come within this time. Raises Finding when the broker sends what is none."""
        self._bytes += self.read(wait_s)
        at = 0
        while len(self._bytes) - at >= 4:
            (size,) = struct.unpack_from(">I", self._bytes, at)
            if len(self._bytes) - at - 4 < size:
                break
            body = bytes(self._bytes[at + 4 : at + 4 + size])
            at += 4 + size
            try:
                frame = _frame(body)
            except Exception as error:
                raise Finding(f"the broker sent a frame that is none: {error!r}: {body[:200].hex()}") from error
            if frame.type == "PING":
                self.write(frame_bytes(command_bytes("PONG", {})))
            self.received.append(frame)
        del self._bytes[:at]

    def wait_for(self, type_name: str, timeout_s: float) -> bool:
        """Tells whether a frame of this type came, or the broker closed, within this time."""
        deadline = time.monotonic() + timeout_s
        while not self.closed:
            if any(frame.type == type_name for frame in self.received):
                return True
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            self.read_frames(left_s)
        return True

    def half_close(self) -> None:
        """Says that nothing more is to come."""
        try:
            socket.socket.shutdown(self._socket, socket.SHUT_WR)  # that of TLS would end reading, too
        except OSError:
            self.closed = True

    def reset(self) -> None:
        """Leaves without a good-bye: what is under way is thrown away."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def close(self) -> None:
        """Leaves."""
        self._socket.close()


def _frame(body: bytes) -> Frame:
    """Reads a frame. Of a MESSAGE only the command: its metadata are what some attack has published, unread."""
    size = int.from_bytes(body[:4])
    command = api.BaseCommand.FromString(body[4 : 4 + size])
    if command.type == api.BaseCommand.MESSAGE:
        return Frame("MESSAGE", fields_of(command.message))
    return parse_frame(body)
