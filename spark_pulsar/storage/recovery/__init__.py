"""Recovery: checkpoint and replay, take-over of files, start without a checkpoint."""
