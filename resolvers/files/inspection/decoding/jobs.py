"""Jobs of the decoder process, and its limits."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypedDict


class DecodingLimits(NamedTuple):
    """Limits of one job.

    Attributes:
        cpu_seconds: CPU time.
        memory_bytes: Address space.
        output_bytes: Length of a written file.
        max_pixels: Pixels of one image.
        max_total_pixels: Sum of pixels of all frames of an animation.
        max_frames: Frames of an animation.
    """

    cpu_seconds: int = 10
    memory_bytes: int = 1 << 30
    output_bytes: int = 256 << 20
    max_pixels: int = 50_000_000
    max_total_pixels: int = 250_000_000
    max_frames: int = 1_000


class DecodingJob(NamedTuple):
    """A request to the decoder process.

    Attributes:
        kind: `inspect` finds the type, and removes everything but pixels from images. `scale` makes a thumbnail.
        source: Path of the file.
        target: Path at which a new file is written.
        type_hint: Type that the owner named.
        filename: Name that the owner gave.
        width: Width of the thumbnail.
        limits: Limits of the job.
    """

    kind: Literal["inspect", "scale"]
    source: str
    target: str
    type_hint: str | None
    filename: str | None
    width: int
    limits: DecodingLimits


class Answer(TypedDict, total=False):
    """Result of a job. `rejected` is the reason why there is no other result."""

    rejected: str
    content_type: str
    is_written: bool
    """The target is what readers get."""
    width: int | None
    height: int | None
    thumb_hash: str | None
    is_image: bool


class CannotDecode(Exception):
    """Raised with a reason for a file that cannot be decoded within the limits."""
