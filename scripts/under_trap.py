"""Run a command whose environment names a cluster and a login that must not be touched.

`python scripts/under_trap.py COMMAND…` sets KUBECONFIG, a home folder with `.kube/config` and
Pulumi credentials, and Pulumi's access token and backend, so that all lead to a server of its own
on loopback. Its exit code is the command's, or 3 when anything connected to that server.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

TOUCHED = 3


class Trap:
    """A server on loopback that closes every connection and counts it."""

    def __init__(self) -> None:
        self.connections = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self._thread = threading.Thread(target=self._count, daemon=True)
        self._thread.start()

    def _count(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            connection.close()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()


def set_trap(url: str, home: Path) -> dict[str, str]:
    """The environment that leads to this address from everywhere; `home` is filled."""
    kubeconfig = home / ".kube" / "config"
    kubeconfig.parent.mkdir()
    # JSON is YAML, and this needs no package.
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "trap",
                "clusters": [{"name": "trap", "cluster": {"server": url}}],
                "users": [{"name": "trap", "user": {"token": "trap"}}],
                "contexts": [{"name": "trap", "context": {"cluster": "trap", "user": "trap"}}],
            }
        )
    )
    credentials = home / ".pulumi" / "credentials.json"
    credentials.parent.mkdir()
    credentials.write_text(json.dumps({"current": url, "accessTokens": {url: "pul-trap"}}))
    real_home = Path.home()
    return {
        **os.environ,
        "HOME": str(home),
        "KUBECONFIG": str(kubeconfig),
        "PULUMI_ACCESS_TOKEN": "pul-trap",
        "PULUMI_BACKEND_URL": url,
        # What is cached stays usable although the home folder is another one.
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(real_home / ".cache")),
        "GOPATH": os.environ.get("GOPATH", str(real_home / "go")),
        "PYTHON": sys.executable,
    }


def main(command: Sequence[str]) -> int:
    """Run the command and say whether anything was touched."""
    trap = Trap()
    try:
        with tempfile.TemporaryDirectory() as home:
            code = subprocess.run(
                command, env=set_trap(trap.url, Path(home)), check=False
            ).returncode
    finally:
        trap.close()
    if trap.connections:
        print(
            f"{' '.join(command)} made {trap.connections} connections to the cluster or login of"
            " the person who runs it; it must ignore both.",
            file=sys.stderr,
        )
        return TOUCHED
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
