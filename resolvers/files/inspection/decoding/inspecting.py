"""Inspection of one file: its type, and what readers get of it."""

from __future__ import annotations

from typing import BinaryIO

from resolvers.files.inspection.decoding import content_types, images, tracks
from resolvers.files.inspection.decoding.jobs import Answer, DecodingJob


def load_libraries() -> None:
    """Import and open everything that jobs need. A job can open no files."""
    content_types.load_libraries()
    images.load_libraries()
    tracks.load_libraries()


def run(job: DecodingJob, source: BinaryIO, target: BinaryIO) -> Answer:
    """Run a job. Raises CannotDecode; libraries raise errors of any kind for broken files."""
    if job.kind == "scale":
        return images.scale(source, target, job.width, job.limits)
    content_type = content_types.find_type(source, job.type_hint, job.filename)
    source.seek(0)
    if content_type in images.FORMATS:
        answer = images.clean(source, target, content_type, job.limits)
        if answer is not None:
            return answer
        # A raw photograph, or a document of several pages.
        return {"content_type": content_type}
    if content_type.startswith(("video/", "audio/")):
        return tracks.inspect(source, content_type)
    return {"content_type": content_type}
