"""``sparkhaven doctor``: what a person asks first when something is not well. It reads, and changes nothing.

Each module has the checks of one noun; a check takes a ``Visit`` and gives findings. None of them may end the command:
what it cannot look at is a finding.
"""
