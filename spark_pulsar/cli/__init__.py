"""The command line: the console script `spark-pulsar`, its commands and their output.

`main.py` holds the console script. It is also what a broker process runs, so everything that a broker does not need
(rich, the official client, pyarrow) is imported inside the bodies of the commands that use it: a broker is up in well
under a second and small. Each folder holds the commands of one noun; `access` finds the Pulsar to talk to.
"""
