"""Converts messages and images to tokens and pixels: templates, tokenizers, images; no model."""
