"""What every command needs of a terminal: options, help pages, and the screen it writes to."""
