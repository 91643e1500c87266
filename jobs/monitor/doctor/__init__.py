"""``sparkhaven doctor``: the first command to run when something is wrong. It only reads.

Each module has the checks of one noun; a check takes a ``CheckContext`` and yields findings. A check never ends the
command: what it cannot read is itself a finding.
"""
