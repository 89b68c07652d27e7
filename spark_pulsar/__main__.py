"""The commands of `spark-pulsar` as `python -m spark_pulsar`, for environments whose scripts are not on the path."""

from spark_pulsar.cli.main import app

if __name__ == "__main__":
    app()
