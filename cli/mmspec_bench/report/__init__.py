"""Reports on benchmark runs: tables, figures and coloured answers."""
