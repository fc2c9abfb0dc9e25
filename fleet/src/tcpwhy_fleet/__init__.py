"""Many tcpwhy recordings as one question."""

from .fleet import Fleet, open_fleet
from .unfit import UnfitError

# `open` as in tcpwhy_fleet.open("recordings/"); within the package it is called by its longer name.
open = open_fleet

__all__ = ["Fleet", "UnfitError", "open"]
