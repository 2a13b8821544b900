"""Bytes to messages and back: definitions, message classes, codec, framing."""
