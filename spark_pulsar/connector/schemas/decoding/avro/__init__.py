"""Decoding of AVRO payloads: compiled for records of plain fields, by the library for all others, within bounds."""
