"""One module for each command. See README.md."""
