"""Feedback for students, and reports on a class for instructors."""
