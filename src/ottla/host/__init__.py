"""The one broker package that touches the operating system. See README.md."""
