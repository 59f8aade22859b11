"""Tools for instructors and administrators; none of these files enters the students' folder."""
