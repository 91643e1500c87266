"""``sparkhaven doctor``: what a person asks first when something is not well. It reads, and changes nothing.

Each module has the checks of one noun; a check takes a ``CheckContext`` and yields findings. A check never ends the
command: what it cannot read is itself a finding.
"""
