"""This project and others beside each other, each in a process of its own."""
