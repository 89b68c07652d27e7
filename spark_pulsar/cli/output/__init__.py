"""Output of commands: values as tables, text, JSON or YAML, and progress on a terminal."""
