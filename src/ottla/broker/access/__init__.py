"""Authorization: the ACLs in the cluster's metadata, and the authorizer that applies them."""
