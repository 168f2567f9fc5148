"""Full-size checkpoints of random weights, and what rounds cost on them."""
