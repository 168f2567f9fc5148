"""The terminal's interface: input, output and interrupts."""
