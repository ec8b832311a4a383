"""`python -m volcanoio`."""

from volcanoio.cli.main import main

main()
