"""The eager attention that the operator is compared with serves here too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "op"))
