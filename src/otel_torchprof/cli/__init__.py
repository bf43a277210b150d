"""The command `otel-torchprof`: a file for each of its subcommands, parsing and printing only."""
