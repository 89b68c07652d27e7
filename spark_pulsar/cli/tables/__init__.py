"""Topics as tables: read into files, and queried in SQL by DuckDB."""
