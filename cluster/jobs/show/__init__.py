"""Jobs, sweeps and timelines as displayed in a notebook and in a terminal."""
