"""Metrics of Apache Pulsar 4.0.8 that `/metrics` leaves out, and the reasons: a table of docs/broker-metrics.md,
which a test of both brokers holds complete."""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class LeftOut(NamedTuple):
    """Metrics whose names fit a pattern, where `*` stands for anything, and the reason why there are none here."""

    names: str
    reason: str

    def has(self, name: str) -> bool:
        """Returns whether a metric is among them."""
        return any(re.fullmatch(each.replace("*", ".*"), name) for each in self.names.split())


_JAVA: Final = "there is no Java process; `process_*` reports processor, memory and files"
_HISTOGRAM: Final = (
    "counting each entry into buckets costs time in the path of messages; clients measure latencies, "
    "`spark-pulsar bench` too"
)

LEFT_OUT: Final = (
    LeftOut("jvm_* jetty_* caffeine_* log4j2_* netty_* bookkeeper_* bookie_* zk_*", _JAVA),
    LeftOut("pulsar_web_executor_* pulsar_ml_cache_pool_*", _JAVA),
    LeftOut("pulsar_metadata_store_*", "there is no metadata store beside the journal"),
    LeftOut(
        "pulsar_txn_tc_bufferedwriter_* pulsar_txn_pending_ack_store_bufferedwriter_*",
        "transactions are written to the one journal, without writers of their own",
    ),
    LeftOut(
        "pulsar_txn_tb_client_* pulsar_txn_tp_commit_latency*",
        "the coordinator ends a transaction on all topics and subscriptions in one step, without requests to them",
    ),
    LeftOut("pulsar_subscription_filter_* pulsar_storage_offloaded_size", "entry filters and offloading are not built"),
    LeftOut(
        "topic_load_* pulsar_topic_load_* pulsar_broker_topic_load_*",
        "topics are not loaded from elsewhere, they are in memory",
    ),
    LeftOut(
        "pulsar_broker_lookup* pulsar_schema_*_latency*",
        "lookups and schemas are answered at once, from memory, and lookups never redirect",
    ),
    LeftOut("pulsar_broker_load_manager_* pulsar_lb_*", "there is one broker; `broker-stats/load-report` has its load"),
    LeftOut("pulsar_entry_size_* pulsar_ml_EntrySize*", f"{_HISTOGRAM}; `pulsar_average_msg_size` has the mean"),
    LeftOut(
        "pulsar_storage_write_latency_* pulsar_storage_ledger_write_latency_* pulsar_broker_publish_latency* "
        "pulsar_ml_AddEntryLatency* pulsar_ml_LedgerAddEntryLatency* pulsar_ml_LedgerSwitchLatency* "
        "pulsar_compaction_latency_*",
        _HISTOGRAM,
    ),
    LeftOut(
        "pulsar_compaction_read_throughput pulsar_compaction_write_throughput pulsar_compaction_succeed_count "
        "pulsar_compaction_failed_count pulsar_compaction_compacted_topics_count",
        "statistics of a topic have the last compaction's times; its outcome is that of `topics compaction-status`",
    ),
    LeftOut(
        "pulsar_ml_cache_entries pulsar_ml_cache_evict* pulsar_ml_cache_hits_* pulsar_ml_cache_misses_* "
        "pulsar_ml_cache_inserted_* pulsar_ml_cache_pendingreads_* pulsar_ml_reads_* "
        "pulsar_storage_read_cache_misses_rate "
        "pulsar_broker_storage_read_cache_misses_rate pulsar_ml_ReadEntriesOpsCacheMissesRate",
        "reads are not counted apart by where they are served from; `pulsar_ml_cache_used_size` has the memory",
    ),
    LeftOut(
        "pulsar_ml_AddEntryErrors pulsar_ml_ReadEntriesErrors pulsar_ml_AddEntrySucceed "
        "pulsar_ml_ReadEntriesSucceeded pulsar_ml_AddEntryWithReplicasBytesRate pulsar_ml_MarkDeleteRate",
        "an entry is stored once and fails with the whole disk (`spark_pulsar_disk_full`); rates show the rest",
    ),
    LeftOut(
        "pulsar_broker_in_bytes_total pulsar_broker_out_bytes_total",
        "sums of `pulsar_in_bytes_total` and `pulsar_out_bytes_total`; they would fall when a topic is deleted",
    ),
    LeftOut("pulsar_broker_pending_bytes_to_dispatch", "what is sent waits in the connections alone"),
    LeftOut(
        "pulsar_delayed_message_index_size_bytes pulsar_subscription_delayed_message_index_size_bytes",
        "delays are part of the topic's state, without an index of their own",
    ),
    LeftOut("pulsar_storage_backlog_quota_check_duration_seconds*", "quotas are checked when one may be reached"),
    LeftOut(
        "pulsar_resource_group_*",
        "a resource group's use is that of its topics; there is nothing to share out between brokers",
    ),
    LeftOut("*_created", "times at which Java's counters began; `process_start_time_seconds` is that of all here"),
)
"""The first one that fits gives the reason."""
