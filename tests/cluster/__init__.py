"""Suites on an Apache Pulsar with two brokers and on a Spark with executors of its own: `make test-cluster`."""
