"""The sandboxes around a student's code.

bubblewrap    runs each process in a sandbox of its own, if the machine allows no forks from a server
fork_server   runs in one bubblewrap and forks the usual sandboxes; fork_client is the engine's side of it
namespaces    turns a child of the fork server into a sandbox
cgroups       limits all processes of a sandbox together; unprivileged: a sandbox is never started as root
leftovers     removes what a killed engine has left
"""
