"""How much is drawn: the same every time in the quick suite, much more and always anew in the deep one."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

__all__ = ["DEEP", "QUICK"]

_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)

QUICK = settings(
    derandomize=True, database=None, deadline=None, max_examples=40, stateful_step_count=25, suppress_health_check=_SLOW,
    phases=(Phase.generate, Phase.shrink), report_multiple_bugs=False,
)  # fmt: skip
DEEP = settings(QUICK, derandomize=False, max_examples=1_500, stateful_step_count=60, print_blob=True)
