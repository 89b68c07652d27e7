"""A real Apache Pulsar as the judge of our broker and connector.

`start.py` runs Apache Pulsar standalone from the jars that Maven Central holds, with no Docker: the class path is
resolved once by Maven (about 270 MB) and its list of files kept in `~/.cache/apache-pulsar`. The suites take it through
the fixture `broker` (`pytest --broker=apache-pulsar`); by hand: `python -m tests.apache_pulsar.start --data DIR`.
"""
