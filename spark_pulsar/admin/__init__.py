"""Apache Pulsar's admin REST API over a running core: topics, partitions, statistics, health, metrics.

Reading calls look at the core directly, they run in its loop. Changing calls are run inside the core, at their place in
the order of events, and are answered when what they changed is on disk. What is refused says why: `{"reason": ...}`.
"""
