"""Login and scores by LTI 1.3."""
