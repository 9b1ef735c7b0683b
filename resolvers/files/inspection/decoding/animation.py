"""An animation whose frames are decoded one by one."""

from __future__ import annotations

from PIL import Image

from resolvers.files.inspection.decoding import pixels

_MAX_FRAME_MS = 60_000


class Animation(Image.Image):
    """The cleaned frames of an image. Pillow's encoders select them in order, so only one is in memory.

    `durations` has those of the frames that were decoded (ms).
    """

    def __init__(self, original: Image.Image, numbers: range) -> None:
        super().__init__()
        self._original = original
        self._numbers = numbers
        self._selected = -1
        self.is_animated = True
        self.n_frames = len(numbers)
        self.durations = [0] * len(numbers)
        self.seek(0)

    def seek(self, frame: int) -> None:
        """Decode a frame. Raises EOFError if there is none."""
        if frame == self._selected:
            return
        if not 0 <= frame < self.n_frames:
            raise EOFError("no more frames")
        self._original.seek(self._numbers[frame])
        cleaned = pixels.clean(self._original)
        self.im, self._mode, self._size = cleaned.im, cleaned.mode, cleaned.size
        self.palette, self.info = cleaned.palette, cleaned.info
        # Some decoders know the duration after they have decoded the frame.
        self.durations[frame] = min(max(0, round(self._original.info.get("duration") or 0)), _MAX_FRAME_MS)
        self._selected = frame

    def tell(self) -> int:
        """Return the number of the selected frame."""
        return self._selected
