"""Metrics over HTTP, for programs that have no server of their own."""

from dataclasses import dataclass
from threading import Thread
from wsgiref.simple_server import WSGIServer

from prometheus_client import REGISTRY, CollectorRegistry, start_http_server


@dataclass(frozen=True)
class Endpoint:
    """A server that answers on `http://address:port/metrics`, from a thread of its own."""

    address: str
    port: int
    _server: WSGIServer
    _thread: Thread

    def close(self) -> None:
        """Stops it, and waits for its thread. A no-op the second time."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve(port: int, address: str = "127.0.0.1", *, registry: CollectorRegistry | None = None) -> Endpoint:
    """Serves what is registered, until `close`.

    Args:
        port: of TCP; 0 for any that is free.
        address: where to listen. "0.0.0.0" lets other machines scrape; nobody is asked who they are.
        registry: what to serve; None for the library's own.

    Raises:
        OSError: the port is taken.
    """
    server, thread = start_http_server(port, address, REGISTRY if registry is None else registry)
    return Endpoint(address, server.server_port, server, thread)
