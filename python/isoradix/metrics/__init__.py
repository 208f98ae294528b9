"""What a rank has done, for Prometheus.

    from isoradix.metrics import Exporter, HitCounter, serve

    hits = HitCounter()
    exporter = Exporter(driver, hits)
    endpoint = serve(9400)

Everything is read when it is scraped, by the thread that scrapes. Needs `pip install isoradix[metrics]`.
"""

from importlib.util import find_spec

if find_spec("prometheus_client") is None:
    raise ModuleNotFoundError(
        'isoradix.metrics needs prometheus-client, which is missing\nhint: pip install "isoradix[metrics]"',
        name="prometheus_client",
    )

from isoradix.metrics.exporter import Exporter
from isoradix.metrics.families import FAMILIES, Family
from isoradix.metrics.hits import HitCounter
from isoradix.metrics.server import Endpoint, serve

__all__ = ["FAMILIES", "Endpoint", "Exporter", "Family", "HitCounter", "serve"]
