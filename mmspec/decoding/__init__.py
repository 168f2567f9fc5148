"""The decoding loop and a round's parts; nothing here depends on models, prompts or files."""
