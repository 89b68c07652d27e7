"""Types of columns: the columns that a schema gives to a read, in Arrow and with the names of Spark."""
