"""The only package of a node that touches the operating system. See README.md."""
