"""`spark-pulsar topics tree` where some topics cannot be looked at."""

from __future__ import annotations

import json
from contextlib import closing

from typer.testing import CliRunner

from spark_pulsar.cli.main import app
from tests.unit.cli.answering_server import AnsweringServer


def test_one_topic_that_cannot_be_looked_at_does_not_end_the_tree() -> None:
    names = ["fenced", "gone", "plain"]
    with closing(AnsweringServer()) as server:
        server.answer = (200, "[]")
        server.answers = {
            "/admin/v2/persistent/t/n": (200, json.dumps([f"persistent://t/n/{name}" for name in names])),
            "/admin/v2/persistent/t/n/fenced/stats": (503, json.dumps({"reason": "Topic is temporarily unavailable"})),
            "/admin/v2/persistent/t/n/gone/stats": (404, json.dumps({"reason": "Topic not found"})),
            "/admin/v2/persistent/t/n/plain/stats": (200, json.dumps({"subscriptions": {"s": {"msgBacklog": 2}}})),
        }
        words = ["topics", "tree", "t/n", "--admin-url", server.url]
        done = CliRunner().invoke(app, words)
        assert (done.exit_code, done.stdout.splitlines()[2:]) == (
            0,
            [
                "    ├── fenced: Topic is temporarily unavailable",
                "    └── plain",
                "        └── s: backlog 2, 0 consumers",
            ],
        )
        [tenant] = json.loads(CliRunner().invoke(app, [*words, "-o", "json"]).stdout)
        [namespace] = tenant["namespaces"]
        assert [topic.get("error") for topic in namespace["topics"]] == ["Topic is temporarily unavailable", None]
