"""SENDs and their receipts, in runs and by column."""
