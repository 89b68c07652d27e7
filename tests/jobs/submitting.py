"""spark-submit as a user runs the example jobs."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 270


def submit(job: str, *arguments: object) -> str:
    """Runs a job to its end and returns what it printed; fails with that when the job did."""
    binaries = Path(sys.executable).parent
    env = dict(os.environ)
    env["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    env["SPARK_CONF_DIR"] = str(ROOT / "conf")
    env["PYSPARK_PYTHON"] = env["PYSPARK_DRIVER_PYTHON"] = sys.executable
    env["SPARK_LOCAL_IP"] = "127.0.0.1"
    command = [str(binaries / "spark-submit"), "--master", "local[2]", str(ROOT / "jobs" / job), *map(str, arguments)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
