"""The barriers around a student's code: bubblewrap, cgroups, an account that may do nothing."""
