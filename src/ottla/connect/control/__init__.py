"""Control of a Connect cluster: REST, the group of workers, the stores, and what runs on this worker."""
