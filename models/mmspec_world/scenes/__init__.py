"""The contents of pictures (scenes, charts, words, pairs, stories) and their rendering.

The questions about them are in `questions`."""
