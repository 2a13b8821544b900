"""The cluster's truth: metadata records, the immutable image they build, and the controller that decides on changes."""
