"""The terminal's interface: input, output and interrupts.

The commands are in the modules of the parent package.
"""
