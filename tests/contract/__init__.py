"""One suite for every storage: what `spark_pulsar.ledger.storage.Storage` promises, on files and in memory."""
