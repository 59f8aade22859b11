"""Modules that run in the sandboxes, together with the part of the package that students have."""
