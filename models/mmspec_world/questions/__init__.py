"""Questions about one drawing, each with the parts of its answer.

Conversations with several questions are in `tasks`."""
