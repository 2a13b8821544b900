"""Small applications with `ottla.client`."""
