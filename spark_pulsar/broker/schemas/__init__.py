"""The schema registry (rules section 14): which schemas a topic has, and who may use it with which.

`registry` holds the rules and is asked when a producer or consumer comes, never per message: a message carries the
version it was written with, and it stays in there as it came. `compatibility` judges whether a schema may follow
others, `definitions` whether it is one at all; `avro` and `avro_compatibility` are Avro's part in that.
"""
