"""The log of a broker process: a writer that holds nobody up, and limits of lines that strangers cause."""
