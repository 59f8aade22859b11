"""From solutions/ to the files that students get, without those they must not get."""
