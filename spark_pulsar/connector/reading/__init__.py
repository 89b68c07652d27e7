"""Reading in a task: a range of one topic partition as Arrow record batches."""
