"""The whole suite. Packages here mirror what they judge; nothing in `spark_pulsar` may import from it."""
