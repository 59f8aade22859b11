"""What makes a run the same run: the code, found and followed, and its key."""
