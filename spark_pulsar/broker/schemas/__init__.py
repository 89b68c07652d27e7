"""Schema registry (SC-1 ... SC-11): the schemas of a topic, and the producers and consumers that may use it.

`admission` is called when a producer or consumer comes, never per message: a message carries the version that it was
written with, and it stays in there as it came. `registry` keeps the versions. `compatibility` judges whether a schema
may follow others, `definitions` whether it is one at all; `avro_compatibility`, over `model.avro`, is Avro's part in
that.
"""
