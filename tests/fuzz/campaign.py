"""A campaign: attacks by number beside the canary, watched all the while; then a stop, a check and a restart."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from spark_pulsar.storage.offline.check import Severity, check
from spark_pulsar.testing.process import BrokerProcess
from spark_pulsar.testing.security import ADMIN_ROLE
from tests.fuzz import binary, canary, rest, values
from tests.fuzz.door import APP_ROLE, Door, doors
from tests.fuzz.peer import Finding
from tests.fuzz.signs import CONF, Signs

ATTACKERS: Final = 3
REST_SHARE: Final = 0.3
KNOCK_SHARE: Final = 0.04
"""Share of the attacks on a broker with TLS that bring none, or a part of it."""
SETTLED_MINUTE: Final = 10
MOST_GROWTH: Final = 1.2
"""Resident memory after the tenth minute is at most so many times that of the tenth minute."""
LOOK_S: Final = 1.0
"""Interval between two looks at the broker."""
_SUSPECTS: Final = 40
"""Attacks that a finding of the watch names."""
_END_TIMEOUT_S: Final = 180.0


@dataclass(slots=True)
class Outcome:
    """Outcome of a campaign."""

    attacks: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    times_ms: list[float] = field(default_factory=list)
    start_mb: float = 0.0
    most_mb: float = 0.0
    end_mb: float = 0.0
    bound_mb: float = 0.0
    minutes_mb: list[float] = field(default_factory=list)
    """Resident memory at the end of each minute."""

    @property
    def text(self) -> str:
        """Renders the figures."""
        times = sorted(self.times_ms) or [0.0]
        p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
        attacks = ", ".join(f"{count} {kind}" for kind, count in sorted(self.attacks.items()))
        return (
            f"attacks: {attacks or 'none'}\n"
            f"canary: {len(self.times_ms)} messages, p50 {p50:.1f} ms, p99 {p99:.1f} ms, max {times[-1]:.1f} ms\n"
            f"resident memory: {self.start_mb:.0f} MB at the start, {self.most_mb:.0f} at most, {self.end_mb:.0f} at "
            f"the end; bound {self.bound_mb:.0f}"
            + "".join(f"\nminute {at}: {size_mb:.0f} MB" for at, size_mb in enumerate(self.minutes_mb, 1))
        )

    def note_minute(self, size_mb: float) -> str:
        """Notes resident memory at the end of a minute; says what is wrong with it, or nothing."""
        self.minutes_mb.append(size_mb)
        print(f"minute {len(self.minutes_mb)}: {size_mb:.0f} MB", flush=True)
        settled = self.minutes_mb[SETTLED_MINUTE - 1 : SETTLED_MINUTE]
        if settled and size_mb > MOST_GROWTH * settled[0]:
            return f"the broker has {size_mb:.0f} MB, {settled[0]:.0f} MB it had after {SETTLED_MINUTE} minutes"
        return ""


class Campaign:
    """Attacks on one broker under `cage` until they are through, or something is found."""

    def __init__(self, seed: int, cage: Path, *, tls: bool = False, authorization: bool = False) -> None:
        self.seed = seed
        self._security = {"tls": tls, "token": authorization}
        self.outcome = Outcome()
        self._cage = cage
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._lately: deque[str] = deque(maxlen=_SUSPECTS)
        self._binary = self._web = Door(("", 0))

    def run(self, numbers: Iterable[int], seconds: float) -> Outcome:
        """Runs the attacks of these numbers for so long at most, then looks whether all is whole."""
        data = self._cage / "a" / "data"
        broker = BrokerProcess(data, CONF, **self._security)
        try:
            broker.start()
            self._binary, self._web = doors(broker)
            self._prepare(broker)
            self._fight(broker, iter(numbers), seconds)
            if not self.outcome.findings:
                self._look_after(broker)
        except Finding as finding:
            self._found(str(finding))
        finally:
            broker.close()
        return self.outcome

    def _prepare(self, broker: BrokerProcess) -> None:
        """Makes the canary's namespace and those of the attacks."""
        admin = broker.admin()
        for tenant in (canary.TENANT, "fuzz"):
            admin.create_tenant(tenant)
        for namespace in (canary.NAMESPACE, *values.NAMESPACES):
            if not namespace.startswith("public/"):
                admin.create_namespace(namespace)
            if broker.security.has_tokens and namespace != canary.NAMESPACE:
                admin.grant(namespace, APP_ROLE, "produce", "consume")

    def _fight(self, broker: BrokerProcess, numbers: Iterator[int], seconds: float) -> None:
        signs = Signs(broker, self._cage)
        self.outcome.start_mb, self.outcome.bound_mb = signs.start_mb, signs.bound_mb
        singer = self._start_canary(broker)
        threads = [threading.Thread(target=self._attack, args=(numbers,), daemon=True) for _ in range(ATTACKERS)]
        for thread in threads:
            thread.start()
        began = time.monotonic()
        deadline = began + seconds
        while any(thread.is_alive() for thread in threads) and not self._over.is_set():
            self._over.wait(LOOK_S)
            self._look(signs, singer)
            if time.monotonic() > began + 60 * (len(self.outcome.minutes_mb) + 1) and not self._over.is_set():
                problem = self.outcome.note_minute(signs.memory_mb())
                if problem:
                    self._found(problem)
            if time.monotonic() > deadline:
                self._over.set()
        for thread in threads:
            thread.join(_END_TIMEOUT_S)
        if any(thread.is_alive() for thread in threads):
            self._found("an attack does not end")
        self._end_canary(singer)
        self._look(signs, None)
        self.outcome.end_mb = signs.memory_mb()

    def _attack(self, numbers: Iterator[int]) -> None:
        while not self._over.is_set():
            with self._lock:
                number = next(numbers, None)
            if number is None:
                return
            choices = random.Random(f"{self.seed}/{number}")
            is_rest = choices.random() < REST_SHARE
            self._lately.append(str(number))
            try:
                self._attack_once(choices, is_rest=is_rest)
            except Finding as finding:
                self._found(f"attack {number}: {finding}")
            except Exception:  # noqa: BLE001 - a mistake of ours, or a broker that is gone
                self._found(f"attack {number}: {traceback.format_exc()}")
            with self._lock:
                self.outcome.attacks["REST" if is_rest else "binary"] += 1

    def _attack_once(self, choices: random.Random, *, is_rest: bool) -> None:
        door = self._web if is_rest else self._binary
        if door.context is not None and choices.random() < KNOCK_SHARE:
            door.knock(choices)
        elif is_rest:
            rest.attack(choices, door)
        else:
            binary.attack(choices, door)

    def _look(self, signs: Signs, singer: subprocess.Popen[str] | None) -> None:
        try:
            signs.check()
            if singer is not None and singer.poll() is not None:
                raise Finding("the canary has ended")
        except Finding as finding:
            self._found(f"{finding}\nthe last attacks were {', '.join(self._lately)}")
        except (OSError, ValueError):
            self._found(f"the broker does not say how it is: {traceback.format_exc()}")
        self.outcome.most_mb = max(self.outcome.most_mb, signs.memory_mb() if not self._over.is_set() else 0.0)

    def _found(self, finding: str) -> None:
        if not self._over.is_set():  # what follows a finding may follow from it
            self.outcome.findings.append(finding)
        self._over.set()

    def _start_canary(self, broker: BrokerProcess) -> subprocess.Popen[str]:
        host, port = self._binary.address
        trusted = broker.as_role(ADMIN_ROLE).trust_certs_path
        command = [sys.executable, "-m", "tests.fuzz.canary", f"{host}:{port}", *([str(trusted)] if trusted else [])]
        root = Path(__file__).resolve().parents[2]
        made = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)
        assert made.stdin is not None
        made.stdin.write(f"{self._binary.admin_token}\n")
        made.stdin.flush()
        return made

    def _end_canary(self, singer: subprocess.Popen[str]) -> None:
        try:
            told = json.loads(singer.communicate(timeout=_END_TIMEOUT_S)[0])
        except (subprocess.TimeoutExpired, ValueError):
            singer.kill()
            told = {"failure": "it ended without a word"}
        if "failure" in told:
            self._found(f"the canary: {told['failure']}\nthe last attacks were {', '.join(self._lately)}")
        self.outcome.times_ms = told.get("times_ms", [])

    def _look_after(self, broker: BrokerProcess) -> None:
        """Stops the broker, checks its data, and starts it again."""
        status = broker.stop(timeout_s=60.0)
        if status != 0:
            raise Finding(f"the broker ended with status {status}")
        errors = [str(found) for found in check(broker.data_dir) if found.severity is not Severity.INFO]
        if errors:
            raise Finding("the data directory is not in order:\n" + "\n".join(errors))
        broker.start()
        self._binary, _ = doors(broker)
        signs = Signs(broker, self._cage)
        count = len(self.outcome.times_ms)
        if canary.read_all(self._binary, count) != list(range(count)):
            raise Finding(f"the canary's topic is not whole after the restart: {count} messages were published")
        signs.check()
