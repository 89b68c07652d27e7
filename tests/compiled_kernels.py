"""Machine code of all kernels, made once for a checkout.

`python -m tests.compiled_kernels` makes what is not there yet (`.ci/setup java` does so). Otherwise each process of a
suite that meets a kernel first compiles it for itself, all of them the same ones at the same time: half a minute of a
processor each.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import spark_pulsar
from spark_pulsar.wire.columns.kernels.compiler import compile_now

if __name__ == "__main__":
    package = Path(spark_pulsar.__file__).parent
    for file in package.rglob("*.py"):
        if "@kernel(" in file.read_text():
            import_module(".".join(file.relative_to(package.parent).with_suffix("").parts))
    compile_now()
