"""spark-submit as a user runs the example jobs."""

import subprocess

from demo import spark_submit

TIMEOUT_S = 270


def run(job: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs a job to its end, whatever that is."""
    command, env = spark_submit(job, *map(str, arguments))
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def submit(job: str, *arguments: object) -> str:
    """Runs a job to its end and returns what it printed; fails with that when the job did."""
    done = run(job, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
