"""Model cards, which `mmspec.checkpoints` reads, and the weights of `mini` and its drafts."""
