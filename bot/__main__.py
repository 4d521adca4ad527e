"""`python -m bot` is `prgate`."""

from bot.cli import main

main()
