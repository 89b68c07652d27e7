"""The figures of record: the rows of the table in `docs/benchmarks.md`, their latest results, and the table itself.

`rows` declares what is measured by which command, and the goals; `results` keeps the latest results in `results.json`;
`table` writes the page. `benchmarks/report.py` runs the commands.
"""
