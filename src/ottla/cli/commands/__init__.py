"""One module per command. See README.md."""
