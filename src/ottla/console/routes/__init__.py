"""The handlers of the API, a module for each area. Each exports its `Route`s."""
