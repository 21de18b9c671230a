"""Notices that the engine of this run is gone, and lets its provider host end (D23).

A killed CLI leaves its dynamic provider host behind. The host's standard input is a pipe whose
other end the CLI holds, so that it closes at that moment: calls then stop at their next step, and
when none runs any more the host ends, which else would stay for ever.
"""

import os
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, Final

from pulumi_gpustack._progress import engine_address

_CONNECT_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.2

_gone: Final = threading.Event()
_lock: Final = threading.Lock()
_watchers: Final[list[threading.Thread]] = []


def is_gone() -> bool:
    """Whether the engine is gone, so that nobody waits for any call."""
    return _gone.is_set()


def watch(stdin: int = 0, on_end: Callable[[], None] | None = None) -> None:
    """Watch this process's standard input, once; anything but a pipe says nothing."""
    with _lock:
        try:
            is_pipe = stat.S_ISFIFO(os.fstat(stdin).st_mode)
        except OSError:
            is_pipe = False
        if is_pipe and not _watchers:
            watcher = threading.Thread(
                target=_wait_for_end,
                args=(stdin, on_end or _end),
                name="engine-watcher",
                daemon=True,
            )
            _watchers.append(watcher)
            watcher.start()


def servicer_call(frame: FrameType | None) -> Mapping[str, Any] | None:
    """Return the locals of the SDK's servicer call that the frame runs in, None outside of one."""
    for name, found in frames(frame):
        if name == "wrapper" and _is_servicer_call(found):
            return found
    return None


def frames(frame: FrameType | None) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield function name and locals of the frame and of those that called it."""
    while frame is not None:
        yield frame.f_code.co_name, frame.f_locals
        frame = frame.f_back


def _is_servicer_call(found: Mapping[str, Any]) -> bool:
    return hasattr(found.get("request"), "urn") and all(
        hasattr(found.get("context"), name) for name in ("set_trailing_metadata", "add_callback")
    )


def _wait_for_end(stdin: int, on_end: Callable[[], None]) -> None:
    try:
        while os.read(stdin, 1024):
            pass
    except OSError:
        return
    while _engine_answers():
        time.sleep(_LOOK_SECONDS)
    on_end()


def _engine_answers() -> bool:
    """Whether the engine still listens: then it only closed the pipe, or is still being ended."""
    host, _, port = engine_address().rpartition(":")
    try:
        socket.create_connection((host, int(port or 0)), timeout=_CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def _end() -> None:
    _gone.set()
    while any(servicer_call(frame) for frame in sys._current_frames().values()):  # noqa: SLF001
        time.sleep(_LOOK_SECONDS)
    os._exit(0)
