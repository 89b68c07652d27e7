"""Transactions: a micro-batch, or a batch job, is one, over all its topics and tasks (TXN-1).

The driver opens it when the writer leaves for the tasks, and ends it at Spark's commit or abort. Which micro-batch has
been committed last is kept in a topic, and written in the transaction itself, so that the two are never at odds.
"""
