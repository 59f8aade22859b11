"""What runs on the nodes, once for each rank."""
