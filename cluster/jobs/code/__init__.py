"""The identity of a run: its code, found and followed, and its cache key."""
