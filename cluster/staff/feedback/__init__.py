"""What a student reads of a grading, and what an instructor reads of a class."""
