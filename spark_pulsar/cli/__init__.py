"""The command line, and a broker as a child process.

`main.py` holds the console script `spark-pulsar`. It is also what a broker process runs, so everything that a broker
does not need (rich, the official client, pyarrow) is imported inside the bodies of the commands that use it: a broker
is up in well under a second and small. `process.py` starts that same command as a child for tests, notebooks and jobs,
and promises that the child never outlives its parent.

A child is tied to its parent by its standard input: it is a pipe whose other end only the parent holds, so the system
closes it however the parent ends, SIGKILL included, and the broker takes the end of its input as SIGTERM. (Linux'
parent-death signal is no substitute: it fires when the *thread* that started the child ends.)
"""
