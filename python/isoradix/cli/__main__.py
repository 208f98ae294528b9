"""python -m isoradix.cli"""

import sys

from isoradix.cli import main

sys.exit(main())
