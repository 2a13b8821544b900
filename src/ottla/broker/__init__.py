"""The node: connects the machines, and dispatches, handles and answers requests. See README.md."""
