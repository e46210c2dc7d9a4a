"""Report requests and their rows: what was asked, by whom it is claimed, how it ended."""
