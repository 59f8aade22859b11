"""Files for the state folder: the configuration of the hub and of people's servers, and what it loads.

They do not import this package, which the hub's Python does not have.
"""
