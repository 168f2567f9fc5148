"""What heads and drafts share when they learn from a target: method, losses, acceptance, output."""
