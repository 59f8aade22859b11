"""The sandboxes around a student's code.

bubblewrap     runs each process in a separate bubblewrap, if the machine does not allow a fork server
fork_server    runs in one bubblewrap and forks the usual sandboxes
fork_client    the autograder's side of the fork server
namespaces     turns a child of the fork server into a sandbox
cgroups        limits all processes of a sandbox together
unprivileged   gives each sandbox a user of its own, which is never root
leftovers      removes the files and control groups of a killed autograder
"""
