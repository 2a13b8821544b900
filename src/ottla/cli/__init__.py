"""The `ottla` command. See README.md."""
