"""What instructors and administrators have, and students never: no file of it enters their folder."""
