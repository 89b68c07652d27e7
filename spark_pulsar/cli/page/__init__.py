"""`spark-pulsar page`: the page of this package for any Apache Pulsar."""
