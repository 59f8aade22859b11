"""How a run stands and how it ended, read from its folder."""
