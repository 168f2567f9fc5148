"""Model cards and the bundled pair."""
