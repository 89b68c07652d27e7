"""`python -m tests.simulation SEEDS`: run histories on all cores; the failing seeds, and how many a minute.

SEEDS is a seed (`1234`: its whole story is printed), a range (`1..2000`), or several of these with commas.
"""

from __future__ import annotations

import argparse
import sys

from .history import run
from .seeds import numbers_of, run_many


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seeds", nargs="?", default="1..2000")
    parser.add_argument("--storage", choices=["memory", "files"], help="instead of the one that the seed draws")
    arguments = parser.parse_args()
    seeds = numbers_of(arguments.seeds)
    if len(seeds) == 1:
        print(run(seeds[0], storage=arguments.storage, tell=print))
        return 0
    summary = run_many(seeds, storage=arguments.storage)
    print(summary.text)
    for seed, story in summary.failures[:5]:
        print(f"\n---- seed {seed}\n{story}")
    return 1 if summary.failures else 0


if __name__ == "__main__":
    sys.exit(main())
