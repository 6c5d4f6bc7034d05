"""The imported problem as it is, in its own types: what kernels are held against."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from adapter import deliver, prepare, run  # noqa: E402, F401
