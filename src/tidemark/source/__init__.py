"""Kafka: records as a stream or as an offset range, topics and their offsets."""
