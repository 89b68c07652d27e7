"""The connector on an Apache Pulsar that lets nobody in without credentials: TLS, each way of authentication, and what
Spark shows of secrets. Part of `make test-apache-pulsar`; needs Java and, once, Maven."""
