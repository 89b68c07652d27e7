"""Apache Pulsar's admin REST API over a running core: topics, partitions, statistics, health, metrics.

Reading calls read the core directly, in its loop. Changing calls run inside the core, at their place in the order of
events, and are answered when their changes are on disk. A refusal says why: `{"reason": ...}`.
"""
