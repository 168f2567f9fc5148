"""The tasks: each turns a seed into drawings, questions and answers.

Single questions are in `questions`, the wording of answers in `answers`."""
