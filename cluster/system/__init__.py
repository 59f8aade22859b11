"""Files and processes of this machine, the base of all other packages."""
