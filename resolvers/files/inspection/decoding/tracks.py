"""Videos and sounds: which of both a file is, and how large its picture is. The bytes stay as they are."""

from __future__ import annotations

import io
from typing import BinaryIO

from pymediainfo import MediaInfo, Track

from resolvers.files.inspection.decoding.content_types import UNKNOWN
from resolvers.files.inspection.decoding.jobs import Answer

_SOUND_OF = {"video/mp4": "audio/mp4", "video/webm": "audio/webm", "video/3gpp": "audio/3gpp", "video/ogg": "audio/ogg"}
_VIDEO_OF = {"audio/ogg": "video/ogg", "audio/mp4": "video/mp4"}
_SIDEWAYS = frozenset({90, 270})
_MAX_SIDE = 100_000


def load_libraries() -> None:
    """Open MediaInfo's library."""
    MediaInfo.parse(io.BytesIO(b"RIFF"))


def inspect(source: BinaryIO, content_type: str) -> Answer:
    """Return the type and the picture's size. A file in which no track is found is of unknown type."""
    found = MediaInfo.parse(source, parse_speed=0)
    if found.video_tracks:
        width, height = _displayed_size(found.video_tracks[0])
        return {"content_type": _VIDEO_OF.get(content_type, content_type), "width": width, "height": height}
    if found.audio_tracks:
        return {"content_type": _SOUND_OF.get(content_type, content_type)}
    return {"content_type": UNKNOWN}


def _displayed_size(track: Track) -> tuple[int | None, int | None]:
    """Return width and height as players display them: rotated, and with square pixels."""
    width, height = track.width, track.height
    if not (isinstance(width, int) and isinstance(height, int) and 0 < width <= _MAX_SIDE and 0 < height <= _MAX_SIDE):
        return None, None
    width = max(1, round(width * _number(track.pixel_aspect_ratio, 1.0)))
    is_sideways = round(_number(track.rotation, 0.0)) % 360 in _SIDEWAYS
    return (height, width) if is_sideways else (width, height)


def _number(value: object, default: float) -> float:
    try:
        number = float(str(value))
    except ValueError:
        return default
    return number if 0 < number < 1000 else default
