"""`spark-pulsar move`: tenants, namespaces, topics, messages and subscriptions of one Pulsar to another."""
