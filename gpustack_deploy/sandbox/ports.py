"""Ports on the loopback address that nobody listens on."""

import contextlib
import random
import socket

from gpustack_deploy.sandbox.errors import StartFailed

LOOPBACK = "127.0.0.1"
# Below the range that outgoing connections take their ports from.
_LOWEST, _HIGHEST = 20000, 32000


def free_ports(count: int, *, taken: frozenset[int] = frozenset()) -> list[int]:
    """That many different ports that can be bound now and are not among the taken ones."""
    candidates = random.sample(range(_LOWEST, _HIGHEST), _HIGHEST - _LOWEST)
    found: list[int] = []
    for port in candidates:
        if len(found) == count:
            return found
        if port not in taken and is_free(port):
            found.append(port)
    raise StartFailed(f"Fewer than {count} ports between {_LOWEST} and {_HIGHEST} are free.")


def is_free(port: int) -> bool:
    """Whether the port can be bound on the loopback address."""
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
