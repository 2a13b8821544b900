"""The cluster metadata: records, the immutable image that they build, and the controller that decides changes."""
