"""`spark-pulsar admin`: the commands of `pulsar-admin`, over the REST API of any Pulsar."""
