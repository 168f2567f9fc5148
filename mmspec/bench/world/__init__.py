"""The drawn world: scenes, questions and answers made from a seed."""
