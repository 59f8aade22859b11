"""Files and processes of this machine: what every other room stands on."""
