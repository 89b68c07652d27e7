"""What each record changes in the durable state."""
