"""The handlers of the API, a module for each area. Every module exports its `Route`s."""
