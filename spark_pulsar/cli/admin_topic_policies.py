"""`spark-pulsar admin topicPolicies`: policies of single topics."""

import typer

from spark_pulsar.cli.admin_limits import add_limit_commands
from spark_pulsar.cli.admin_policies import Target, add_policy_commands
from spark_pulsar.cli.admin_schemas import add_schema_policy_commands
from spark_pulsar.cli.admin_values import topic_path

TOPIC = Target("TOPIC", topic_path, is_topic=True, segments={"deduplication": "deduplicationEnabled"})

app = typer.Typer(help="Policies of topics.", no_args_is_help=True)
add_policy_commands(app, TOPIC)
add_limit_commands(app, TOPIC)
add_schema_policy_commands(app, TOPIC)
