"""The machine's commands, one module each, and all of them by name.

To add one, write a module with a `Command` and give it a line in `kvdocs.terminal.registry`.
"""
