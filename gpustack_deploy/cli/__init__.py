"""The command line: one module a subcommand.

Each module has `add_parser(subparsers)`, which adds its own parser and sets its default `run` to a
function that takes the parsed arguments and returns the exit code.
"""
