"""The access matrix: role by action by resource, on this broker as it was recorded on Apache Pulsar (SEC-60)."""
