"""Reports on benchmark runs: tables, and CSV files of the measures in `suite`."""
