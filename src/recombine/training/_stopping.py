"""Ctrl-C while training: the first asks for a stop at the next chunk, the second stops at once."""

import signal
import threading
from types import FrameType


class StopRequest:
    """A context in which Ctrl-C sets `asked`; only the main thread can listen.

    Contexts may be nested: what an inner one was asked, the outer one knows when it has ended.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before = None

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._listen)
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            outer = getattr(self._before, "__self__", None)
            if self.asked and isinstance(outer, StopRequest):
                outer.asked = True

    def _listen(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
