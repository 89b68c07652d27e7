"""Apache Pulsar for PySpark, and a lightweight broker that speaks its protocol."""
