"""The connector's own client, and its tasks without Spark, against a real broker process."""
