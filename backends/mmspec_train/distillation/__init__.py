"""What heads and drafts share when they learn from a target: method, losses, acceptance, output.

The modules to train are in `heads` and `drafts`, their training data in `data`."""
