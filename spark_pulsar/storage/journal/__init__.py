"""The journal: segments, groups, run index, walking and reading it, salvage, segment upkeep, back-pressure."""
