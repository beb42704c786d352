"""The command line: one module a group of commands. Heavy imports are made where they are used."""
