"""A program on a terminal of its own, for which somebody types."""

import fcntl
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import termios
import threading

from waiting import until

ROWS, COLUMNS = 40, 160
# What moves the cursor and colours the text.
CONTROLS = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|[=>78])|[\r\x0e\x0f]")
STOP_S = 15


class Terminal:
    """Runs `words` in a home of its own."""

    def __init__(self, home, *words):
        self.written = b""
        pathlib.Path(home).mkdir(parents=True)
        self.side, far = pty.openpty()
        fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.process = subprocess.Popen(
            words, stdin=far, stdout=far, stderr=far, start_new_session=True,
            env={"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "xterm",
                 "LC_ALL": "C.UTF-8"})
        os.close(far)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        # The read fails when the program has ended.
        try:
            while read := os.read(self.side, 65536):
                self.written += read
        except OSError:
            pass

    def text(self):
        """All that it wrote so far, without what only moves and colours."""
        return CONTROLS.sub("", self.written.decode(errors="replace"))

    def shows(self, text):
        """Waits for `text`, of which each word may be painted alone."""
        until(lambda: text in self.text(), f"{text!r} on the terminal")

    def types(self, line):
        os.write(self.side, line.encode() + b"\r")

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        try:
            self.process.wait(STOP_S if kind is None else 0)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            assert kind is not None, f"it does not end:\n{self.text()[-2000:]}"
        self.reader.join(STOP_S)
        os.close(self.side)
