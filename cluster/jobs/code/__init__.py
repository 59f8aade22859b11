"""The identity of a run: its code, including the code it refers to, and its cache key."""
