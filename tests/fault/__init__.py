"""Crashes, torn files and failing disks."""
