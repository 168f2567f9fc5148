"""Training of small LLaVA pairs on the drawn world; needs transformers."""
