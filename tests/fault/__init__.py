"""Faults: damaged files, failing disks, killed processes."""
