"""Training of predictive heads: modules and checkpoints."""
