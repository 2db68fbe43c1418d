"""What holds for every test here: no test asserts a time, so none has Hypothesis's deadline; and CI draws the same every time."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "house",
    deadline=None,
    derandomize="KVPOLL_DEEP" not in os.environ,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("house")
