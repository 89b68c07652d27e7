"""One attack on the binary protocol: a session, damaged here and there, delivered in any pieces."""

from __future__ import annotations

from random import Random
from typing import Final

from tests.fuzz import values
from tests.fuzz.commands import Memory
from tests.fuzz.door import Door
from tests.fuzz.peer import Finding, Peer
from tests.fuzz.stories import CONNECT, WAIT, frame, steps
from tests.raw import PROTOCOL_VERSION, command_bytes, frame_bytes

ANSWER_TIMEOUT_S: Final = 30.0
"""Longest time for the answer to a PING; a broker that takes longer stands still."""
_READ_S: Final = 0.02
_PING: Final = frame_bytes(command_bytes("PING", {}))


def attack(choices: Random, door: Door) -> None:
    """Attacks once. Raises Finding when the broker misbehaves."""
    peer = Peer(door)
    memory = Memory()
    try:
        is_greeted = _begin(choices, peer, memory, _hello(door.token(choices)))
        is_whole = _play(choices, peer, memory)
        _end(choices, peer, is_greeted and is_whole)
    finally:
        peer.close()


def _hello(token: str) -> bytes:
    described = {
        "client_version": "fuzz",
        "protocol_version": PROTOCOL_VERSION,
        "auth_method_name": "token" if token else "none",
        "feature_flags": {"supports_auth_refresh": True, "supports_topic_watchers": True},
    }
    if token:
        described["auth_data"] = token.encode().hex()
    return frame_bytes(command_bytes(CONNECT, described))


def _begin(choices: Random, peer: Peer, memory: Memory, hello: bytes) -> bool:
    """Greets the broker, tells whether properly."""
    way = choices.random()
    if way < 0.85:
        peer.write(hello)
    elif way < 0.92:
        peer.write_in_pieces(choices, frame(choices, CONNECT, memory, 1.0))
    elif way < 0.95:
        peer.write(choices.randbytes(choices.choice((1, 8, 100, 20_000))))
    return way < 0.85  # the last few forget to say hello


def _play(choices: Random, peer: Peer, memory: Memory) -> bool:
    """Plays a session; tells whether it must be answered to the end: all are whole frames, and none is a SEND, since a
    connection that publishes is not read while a rate or a quota holds it back."""
    damage = choices.choice((0.0, 0.1, 0.3, 0.3, 0.9))
    burst = choices.random() < 0.3
    reads = choices.random() < 0.9
    gathered = b""
    names = steps(choices)
    for name in names:
        if peer.closed:
            break
        if name == WAIT:
            peer.write(gathered)
            gathered = b""
            if reads:
                _listen(peer, memory)
            continue
        data = frame(choices, name, memory, damage)
        if choices.random() < 0.03:
            data *= choices.choice((2, 3, 50))
        gathered += data
        if not burst:
            peer.write_in_pieces(choices, gathered)
            gathered = b""
    if choices.random() < 0.15:
        gathered += frame(choices, "SEND", memory, damage)
        peer.write(gathered[: -choices.randrange(1, len(gathered))])
        return False
    peer.write_in_pieces(choices, gathered)
    return damage == 0.0 and "SEND" not in names and "any" not in names


def _listen(peer: Peer, memory: Memory) -> None:
    seen = len(peer.received)
    peer.read_frames(_READ_S)
    for each in list(peer.received)[seen:]:
        memory.see(each)


def _end(choices: Random, peer: Peer, is_whole: bool) -> None:
    way = choices.random()
    if way < 0.1:
        peer.reset()
    elif way < 0.2:
        return
    elif way < 0.3:
        peer.half_close()
        peer.read_frames(_READ_S)
    elif is_whole or way < 0.6:
        peer.received.clear()
        peer.write(_PING)
        if not peer.wait_for("PONG", ANSWER_TIMEOUT_S if is_whole else _READ_S) and is_whole:
            raise Finding(f"no PONG within {ANSWER_TIMEOUT_S:g} s after a session of whole frames")
    elif way < 0.65:
        peer.write(values.octets(choices) * 10)
    else:
        peer.read_frames(_READ_S)
