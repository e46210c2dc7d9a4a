"""Dead letters: the topic, the table, who reads them, and their way back."""
