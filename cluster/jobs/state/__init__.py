"""The state and the end of a run, read from its folder."""
