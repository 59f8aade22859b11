"""From solutions/ to what students get, and what they must not get."""
