"""What holds for every test: generated values are the same in every run, and a slow machine is no failure.

`HYPOTHESIS_PROFILE=wander` draws new values instead; what that finds becomes a test of its own.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("wander", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
