"""The log of a broker process: a writer that never delays the loop, and limits of lines that strangers cause."""
