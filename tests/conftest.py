"""What tests of all kinds share."""

from __future__ import annotations

from functools import cache

from typer import testing
from typer.main import get_command

# typer's runner builds the command line anew for every call, which takes longer than most commands
vars(testing)["_get_command"] = cache(get_command)
