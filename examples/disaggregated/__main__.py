"""`python -m examples.disaggregated`, in a checkout."""

import sys
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.exit(import_module("disaggregated.command").main(sys.argv[1:]))
