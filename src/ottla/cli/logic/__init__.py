"""The decisions of commands, without network and output. See README.md."""
