"""`python -m headrace`: the same as the command `headrace`, of this very environment."""

from headrace.cli.main import main

main()
