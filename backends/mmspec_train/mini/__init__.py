"""Training of a small LLaVA and its draft from random weights, and of a Llama that is to see."""
