"""`spark-pulsar top`: a table of topics that renews itself on a terminal, and is printed once elsewhere."""

from __future__ import annotations

import sys
import time

from spark_pulsar.cli.output.formats import Format, show
from spark_pulsar.cli.topics.screen import show_live
from spark_pulsar.cli.topics.topic_table import TopicTable, plain_table


def top(table: TopicTable, *, sort: str, interval_s: float, count: int, output: Format | None) -> None:
    """Shows topics: live on a terminal unless `count` is 1, else `count` tables (0: one), or values."""
    if output is None and sys.stdout.isatty() and count != 1:
        show_live(table, sort, interval_s, count)
        return
    for number in range(max(1, count)):
        if number:
            time.sleep(interval_s)
        table.refresh()
        table.check_scope()
        if output is not None:
            show([row.as_json() for row in table.sorted(sort)], output)
        else:
            if number:
                sys.stdout.write("\n")
            sys.stdout.write(plain_table(table.sorted(sort)))
        sys.stdout.flush()
