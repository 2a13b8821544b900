"""One module per API with its request and response, and one per family of log records.

All of them are written by `tools/generate_messages.py`; a module is imported when it is first used.
"""
