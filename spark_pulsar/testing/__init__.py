"""A broker as a child process, for tests, notebooks and jobs.

`process.py` starts the command `spark-pulsar broker` as a child, and promises that the child never outlives its parent.
A child is tied to its parent by its standard input: it is a pipe whose other end only the parent holds, so the system
closes it however the parent ends, SIGKILL included, and the broker takes the end of its input as SIGTERM. (Linux'
parent-death signal is no substitute: it fires when the *thread* that started the child ends.)
"""
