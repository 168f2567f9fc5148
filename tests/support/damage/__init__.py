"""A seeded fuzzer: damages files, and lets a process of its own read them within limits."""
