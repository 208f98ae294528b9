"""A process that gives memory to a Mooncake cluster until it is killed: mooncake_owner.py MASTER BYTES READY."""

import sys
import time
from pathlib import Path

from mooncake.store import MooncakeDistributedStore


def main(master: str, size: str, ready: str) -> None:
    store = MooncakeDistributedStore()
    code = store.setup("127.0.0.1", "P2PHANDSHAKE", int(size), 16 << 20, "tcp", "", master)
    if code != 0:
        sys.exit(f"set-up gave {code}")
    Path(ready).touch()
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main(*sys.argv[1:])
