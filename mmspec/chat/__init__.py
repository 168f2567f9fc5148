"""The Python API: loaded models and conversations; the terminal's interface is `mmspec_cli`."""
