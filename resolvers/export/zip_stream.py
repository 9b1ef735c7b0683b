"""A zip file that is made piece by piece, with the zip module of the standard library."""

from __future__ import annotations

import zipfile
from datetime import UTC, datetime
from typing import IO

_COMPRESSION_LEVEL = 6


class _Output:
    """Collects written bytes. It cannot seek, so the zip module writes sizes after the contents."""

    def __init__(self) -> None:
        self.waiting = bytearray()

    def write(self, data: bytes) -> int:
        self.waiting += data
        return len(data)

    def flush(self) -> None:
        pass


class ZipStream:
    """One zip file. Of its contents it keeps only the bytes that `take` has not returned, and an entry per file.

    One file is written after another. Not for several threads at once.
    """

    def __init__(self, now_ms: int) -> None:
        """Begin. now_ms: the time that all files in it have."""
        self._output = _Output()
        self._zip = zipfile.ZipFile(self._output, "w", compresslevel=_COMPRESSION_LEVEL)  # type: ignore[call-overload]
        self._time = datetime.fromtimestamp(now_ms / 1000, UTC).timetuple()[:6]
        self._file: IO[bytes] | None = None

    @property
    def waiting_bytes(self) -> int:
        """Bytes that `take` would return."""
        return len(self._output.waiting)

    def begin(self, name: str, *, compress: bool) -> None:
        """Begin a file. Its size need not be known."""
        info = zipfile.ZipInfo(name, self._time)
        info.compress_type = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
        info.external_attr = 0o600 << 16
        self._file = self._zip.open(info, "w", force_zip64=True)

    def write(self, data: bytes) -> None:
        """Append bytes to the file."""
        assert self._file is not None
        self._file.write(data)

    def end(self) -> None:
        """End the file."""
        assert self._file is not None
        self._file.close()
        self._file = None

    def finish(self) -> None:
        """Write the list of files, and end the file that is being written. Nothing may be added. May be repeated."""
        if self._file is not None:
            self.end()
        self._zip.close()

    def take(self) -> bytes:
        """Return the bytes since the last call, and forget them."""
        taken = bytes(self._output.waiting)
        self._output.waiting.clear()
        return taken
