"""Retry letters and dead letters of Spark's jobs: rows that failed as copies for Pulsar's letter topics, and a read of
the retry letter topic that keeps to the times of delivery."""
