"""Full-size checkpoints of random weights, and the cost of rounds on them."""
