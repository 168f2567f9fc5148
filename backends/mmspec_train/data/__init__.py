"""The frozen target as a teacher: its conversations, answers and hidden states, in batches.

Nothing here knows which head or draft is trained."""
