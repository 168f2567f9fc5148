"""Lossless speculative decoding for multimodal models."""
