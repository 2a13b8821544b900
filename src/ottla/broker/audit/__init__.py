"""What was allowed and refused, and who logged in, written down without holding up the node."""
