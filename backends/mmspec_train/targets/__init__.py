"""Training of a target from parts that exist: a Llama, and a LLaVA's tower with which it sees."""
