"""Commands about streams: land, look, move marks, keep in shape."""
