"""Who may do what: ACLs of the cluster's metadata, and the authorizer that decides by them."""
