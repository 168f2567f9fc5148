"""The frozen target as a teacher: its conversations, answers and hidden states, in batches."""
