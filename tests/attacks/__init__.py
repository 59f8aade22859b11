"""Attack the autograder with a class of attackers; tests/exploits/ has one file per attack.

corpus   reads the attacks and submits them
judge    determines what an attack gained: points, a secret, a trace, or a grading run that stopped
ours     grades the class as `grade run` does
imports  imports archives with misleading names as `grade import` does
among    thirty honest students among ten attackers
"""
