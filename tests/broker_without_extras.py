"""The command `spark-pulsar` as in an environment without NumPy, Arrow, numba, uvloop and the official client."""

import sys

sys.modules.update(dict.fromkeys(("numba", "numpy", "pulsar", "pyarrow", "uvloop")))

from spark_pulsar.cli.main import app  # noqa: E402

if __name__ == "__main__":
    app()
