"""The commands of a chat, lines that start with /, by what they are about."""
