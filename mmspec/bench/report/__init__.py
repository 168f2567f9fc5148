"""What one or more benchmark runs say: tables, figures and coloured answers."""
