"""`spark-pulsar doctor`: what this machine, its Pythons, Spark and a broker lack, each with what to do."""
