"""The durable state as rows of the checkpoint, and back."""
