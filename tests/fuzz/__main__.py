"""Attacks a broker of its own: `python -m tests.fuzz --minutes 5 [--seed 7] [--attacks 17] [--tls] [--authorization]`.

The resident memory of each minute is printed. After the tenth it grows by a fifth at most.

`--attacks` repeats some: a number, a range (`100..250`), or several of these with commas. An attack may need what
earlier ones left behind; a range from a little before it repeats that as well.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
from pathlib import Path

from tests.fuzz.campaign import Campaign
from tests.simulation.seeds import numbers_of


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", default="")
    parser.add_argument("--attacks", default="")
    parser.add_argument("--tls", action="store_true", help="both ports with TLS alone")
    parser.add_argument("--authorization", action="store_true", help="tokens of several roles, authorization on")
    arguments = parser.parse_args()
    seed = int(arguments.seed) if arguments.seed else random.randrange(10**6)
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as cage:
        numbers = numbers_of(arguments.attacks) if arguments.attacks else itertools.count()
        outcome = Campaign(seed, Path(cage), tls=arguments.tls, authorization=arguments.authorization).run(
            numbers, arguments.minutes * 60
        )
    print(outcome.text)
    if not outcome.findings:
        return 0
    for finding in outcome.findings:
        print(f"\nFOUND: {finding}")
    ways = "".join(f" {name}=1" for name in ("TLS", "AUTHORIZATION") if getattr(arguments, name.lower()))
    print(f"\nonce more: make fuzz MINUTES={arguments.minutes:g} SEED={seed}{ways}, one attack: with ATTACK=number")
    return 1


if __name__ == "__main__":
    sys.exit(main())
