"""Animations stay animations, within limits on frames and pixels."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from resolvers.files.inspection.decoding.jobs import DecodingLimits
from resolvers.files.inspection.inspector import Inspector
from resolvers.files.inspection.results import Inspected, RejectedFile, Scaled
from tests.files.inspection.conftest import Inspect
from tests.files.inspection.samples import assert_similar, decode, encode, gif, gradient, read

ANIMATED = ["GIF", "PNG", "WEBP", "AVIF"]
DURATIONS = [40, 250, 120, 1000]


def _frames(count: int = 4) -> list[Image.Image]:
    return [gradient(48, 32).rotate(17 * number) for number in range(count)]


def _animation(name: str, frames: list[Image.Image], **settings: object) -> bytes:
    return encode(frames[0], name, save_all=True, append_images=frames[1:], **settings)


@pytest.mark.parametrize("loop", [0, 3])
@pytest.mark.parametrize("name", ANIMATED)
async def test_animation_keeps_its_frames_durations_and_loops(inspect: Inspect, name: str, loop: int) -> None:
    content = _animation(name, _frames(), duration=DURATIONS, loop=loop)
    found = await inspect(content)
    assert isinstance(found, Inspected)
    original, stored = decode(content), decode(read(found))
    assert stored.get_format_mimetype() in {found.content_type, "image/apng"}
    assert (found.width, found.height) == (48, 32)
    assert (stored.n_frames, stored.info.get("loop")) == (4, original.info.get("loop"))
    for number, duration in enumerate(DURATIONS):
        original.seek(number)
        stored.seek(number)
        stored.load()
        assert stored.info["duration"] == duration
        assert_similar(stored, original, 6)


async def test_animation_without_loops_is_shown_once(inspect: Inspect) -> None:
    found = await inspect(_animation("GIF", _frames(), duration=50))
    assert isinstance(found, Inspected)
    assert "loop" not in decode(read(found)).info


@pytest.mark.parametrize("name", ["GIF", "PNG", "WEBP"])
async def test_pixels_become_transparent_between_frames(inspect: Inspect, name: str) -> None:
    frames = []
    for left in (0, 16):
        frame = Image.new("RGBA", (32, 32))
        ImageDraw.Draw(frame).ellipse((left, 0, left + 15, 31), (200, 10, 10, 255))
        frames.append(frame)
    found = await inspect(
        _animation(name, frames, duration=50, disposal=2) if name != "WEBP" else _animation(name, frames)
    )
    assert isinstance(found, Inspected)
    stored = decode(read(found))
    for number, expected in enumerate([(255, 0), (0, 255)]):
        stored.seek(number)
        frame = stored.convert("RGBA")
        assert tuple(frame.getpixel((x, 16))[3] for x in (8, 24)) == expected


async def test_image_for_programs_without_animations_is_dropped(inspect: Inspect) -> None:
    found = await inspect(_animation("PNG", _frames(), duration=50, default_image=True))
    assert isinstance(found, Inspected)
    stored = decode(read(found))
    assert stored.n_frames == 3
    assert_similar(stored, _frames()[1], 0)


@pytest.mark.parametrize("name", ANIMATED)
async def test_thumbnail_of_an_animation_is_its_first_frame(inspect: Inspect, inspector: Inspector, name: str) -> None:
    found = await inspect(_animation(name, _frames(), duration=50))
    assert isinstance(found, Inspected)
    assert found.path is not None
    scaled = await inspector.scale(found.path, 160)
    assert isinstance(scaled, Scaled)
    thumbnail = decode(read(scaled))
    assert getattr(thumbnail, "n_frames", 1) == 1
    assert_similar(thumbnail, _frames()[0], 6)


async def test_gif_of_10_000_frames_is_rejected(inspect: Inspect) -> None:
    assert isinstance(await inspect(gif(1)), Inspected)
    found = await inspect(gif(10_000))
    assert found == RejectedFile("10000 frames are more than 1000")


async def test_pixels_of_all_frames_are_limited(tmp_path: Path) -> None:
    inspector = Inspector(tmp_path, limits=DecodingLimits(max_total_pixels=4 * 48 * 32 - 1))
    try:
        for name in ANIMATED:
            path = _write(tmp_path / name, _animation(name, _frames()))
            assert await inspector.inspect(path) == RejectedFile("the frames have more than 6143 pixels")
            assert isinstance(await inspector.inspect(_write(path, _animation(name, _frames(3)))), Inspected)
    finally:
        await inspector.close()


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", ["GIF", "PNG", "WEBP"])
async def test_truncated_animation_is_rejected(inspect: Inspect, name: str) -> None:
    content = _animation(name, _frames(), duration=50)
    assert isinstance(await inspect(content[: len(content) * 2 // 3]), RejectedFile)
