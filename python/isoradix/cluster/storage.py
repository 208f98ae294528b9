"""The external storage of one rank of a replay."""

from typing import TYPE_CHECKING

from isoradix.cluster.injector import Injector
from isoradix.cluster.job import Job
from isoradix.consensus.topology import Place
from isoradix.storage import Fingerprint, PageKeys, Shard, open_storage
from isoradix.storage.tier import StorageTier

if TYPE_CHECKING:
    from isoradix.kv import HostPool

MODEL = "isoradix replay"


class OwnTier(StorageTier):
    """A tier that closes its backend."""

    def close(self) -> None:
        super().close()
        self._backend.close()


def open_tier(job: Job, place: Place, layers: int, host: "HostPool", injector: Injector) -> StorageTier:
    """The tier above the backend that the job names.

    The bytes of a replay tell replicas apart, so their pages do not mix either.

    Raises:
        StorageError: it cannot be opened.
    """
    assert job.storage is not None
    kv = host.shape.describe()
    about = Fingerprint(MODEL, f"replica {place.domain}", "uint8", kv, "layer", job.page_size)
    shard = Shard(place.stage * layers, layers, place.tp, job.tp, place.cp, job.cp)
    backend = injector.storage(open_storage(job.storage))
    return OwnTier(backend, PageKeys(about, shard), host)
