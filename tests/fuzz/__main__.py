"""`python -m tests.fuzz --minutes 5 [--seed 1234] [--attacks 17]`: attacks a broker of its own.

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
    arguments = parser.parse_args()
    seed = int(arguments.seed) if arguments.seed else random.randrange(10**6)
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as cage:
        numbers = numbers_of(arguments.attacks) if arguments.attacks else itertools.count()
        outcome = Campaign(seed, Path(cage)).run(numbers, arguments.minutes * 60)
    print(outcome.text)
    if not outcome.findings:
        return 0
    for finding in outcome.findings:
        print(f"\nFOUND: {finding}")
    print(f"\nonce more: make fuzz MINUTES={arguments.minutes:g} SEED={seed}, one attack: with ATTACK=number")
    return 1


if __name__ == "__main__":
    sys.exit(main())
