"""The decoding loop and the parts of a round: drafts, verdicts, sampling, trees.

Nothing here depends on models, prompts or files.
"""
