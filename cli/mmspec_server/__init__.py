"""An HTTP server that speaks OpenAI's API; one conversation decodes at a time."""
