"""python -m isoradix.cli"""

import sys

from isoradix.cli import main

if __name__ == "__main__":  # not where a process of a demo is made from it
    sys.exit(main())
