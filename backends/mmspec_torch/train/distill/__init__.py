"""Distillation of a target into heads and drafts: its answers, its hidden states, the losses."""
