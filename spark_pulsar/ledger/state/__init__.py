"""The durable state in memory: topics, managed ledgers, ledgers, cursors, delay index, trimming."""
