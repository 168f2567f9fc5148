"""Training of the bundled pair and of drafts."""
