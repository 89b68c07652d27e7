"""Transactions, frame by frame and over REST, against a real broker process."""
