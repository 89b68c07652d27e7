"""Writes a thousand rows to a topic, copies it as a stream, counts the copy: tries a cluster's installation.

spark-submit check_installation.py SERVICE_URL SOURCE_TOPIC TARGET_TOPIC CHECKPOINT_DIRECTORY
"""

import sys

from pyspark.sql import SparkSession

import spark_pulsar

service_url, source, target, checkpoint = sys.argv[1:]
spark = SparkSession.builder.appName("check_installation").getOrCreate()
spark_pulsar.register(spark)  # an installed package is found without
pulsar = {"service.url": service_url}

rows = spark.range(1_000).selectExpr("string(id) AS value")
rows.write.format("pulsar").mode("append").options(topic=source, **pulsar).save()

stream = spark.readStream.format("pulsar").options(topic=source, startingOffsets="earliest", **pulsar).load()
writer = stream.select("value").writeStream.format("pulsar").options(topic=target, **pulsar)
writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()

copied = spark.read.format("pulsar").options(topic=target, **pulsar).load()
print(f"copied {copied.count()} rows")
spark.stop()
