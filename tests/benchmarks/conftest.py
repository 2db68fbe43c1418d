"""``benchmarks`` is run from the repository's root and not installed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
