"""What an operator or a job does to a stream that is not landing a batch."""
