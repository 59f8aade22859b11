"""Jobs, sweeps and timelines as one sees them in a notebook and in a terminal."""
