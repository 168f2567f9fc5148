"""Training of a small LLaVA and its draft from random weights, on the synthetic world."""
