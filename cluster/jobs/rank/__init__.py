"""Code that runs on the nodes, once for each rank."""
