"""What tests share: tiny checkpoints, scripted models, independent oracles."""
