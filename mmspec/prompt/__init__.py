"""Converts messages and images to tokens and pixels: chat templates, tokenizers, images.

No model runs here.
"""
