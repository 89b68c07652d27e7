"""Views of the topics of a broker: a live table, and a tree."""
