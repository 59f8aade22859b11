"""What runs in the sandboxes: these modules, and of the package what students have."""
