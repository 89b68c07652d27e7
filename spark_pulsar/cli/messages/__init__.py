"""Commands that send and print messages, on the official client."""
