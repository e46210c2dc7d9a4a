"""Avro: its fast lane, its strict lane, and the schemas of writer and reader."""
