"""A campaign: attacks by number beside the canary, watched all the while; then a stop, a check and a restart."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
import traceback
import urllib.request
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from spark_pulsar.storage.offline.check import Severity, check
from spark_pulsar.testing.process import BrokerProcess
from tests.fuzz import binary, canary, rest, values
from tests.fuzz.peer import Finding
from tests.fuzz.signs import CONF, Signs

ATTACKERS: Final = 3
REST_SHARE: Final = 0.3
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
        )


class Campaign:
    """Attacks on one broker under `cage` until they are through, or something is found."""

    def __init__(self, seed: int, cage: Path) -> None:
        self.seed = seed
        self.outcome = Outcome()
        self._cage = cage
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._lately: deque[str] = deque(maxlen=_SUSPECTS)
        self._address = self._web_address = ("", 0)

    def run(self, numbers: Iterable[int], seconds: float) -> Outcome:
        """Runs the attacks of these numbers for so long at most, then looks whether all is whole."""
        data = self._cage / "a" / "data"
        broker = BrokerProcess(data, CONF)
        try:
            broker.start()
            self._address, self._web_address = _address(broker.service_url), _address(broker.admin_url)
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
        for tenant in (canary.TENANT, "fuzz"):
            _put(broker, f"tenants/{tenant}", {"allowedClusters": ["standalone"]})
        for namespace in (canary.NAMESPACE, *values.NAMESPACES):
            if not namespace.startswith("public/"):
                _put(broker, f"namespaces/{namespace}", {})

    def _fight(self, broker: BrokerProcess, numbers: Iterator[int], seconds: float) -> None:
        signs = Signs(broker, self._cage)
        self.outcome.start_mb, self.outcome.bound_mb = signs.start_mb, signs.bound_mb
        singer = _start_canary(self._address)
        threads = [threading.Thread(target=self._attack, args=(numbers,), daemon=True) for _ in range(ATTACKERS)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + seconds
        while any(thread.is_alive() for thread in threads) and not self._over.is_set():
            self._over.wait(LOOK_S)
            self._look(signs, singer)
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
                if is_rest:
                    rest.attack(choices, self._web_address)
                else:
                    binary.attack(choices, self._address)
            except Finding as finding:
                self._found(f"attack {number}: {finding}")
            except Exception:  # noqa: BLE001 - a mistake of ours, or a broker that is gone
                self._found(f"attack {number}: {traceback.format_exc()}")
            with self._lock:
                self.outcome.attacks["REST" if is_rest else "binary"] += 1

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

    def _end_canary(self, singer: subprocess.Popen[str]) -> None:
        try:
            told = json.loads(singer.communicate("", timeout=_END_TIMEOUT_S)[0])
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
        self._address = _address(broker.service_url)
        signs = Signs(broker, self._cage)
        count = len(self.outcome.times_ms)
        if canary.read_all(self._address, count) != list(range(count)):
            raise Finding(f"the canary's topic is not whole after the restart: {count} messages were published")
        signs.check()


def _start_canary(address: tuple[str, int]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.fuzz.canary", f"{address[0]}:{address[1]}"]
    root = Path(__file__).resolve().parents[2]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 0


def _put(broker: BrokerProcess, path: str, body: object) -> None:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(
        f"{broker.admin_url}/admin/v2/{path}", json.dumps(body).encode(), headers, method="PUT"
    )
    urllib.request.urlopen(request, timeout=60).close()
