"""Encode cleaned images. Nothing but pixels, durations and the number of loops is written."""

from __future__ import annotations

from io import BytesIO
from typing import Any, BinaryIO

from PIL import Image, JpegImagePlugin

from resolvers.files.inspection.decoding.animation import Animation

_JPEG_QUALITY = 90
"""Quality of images that were no JPEG, or whose quality cannot be kept."""

_THUMBNAIL_QUALITY = 80
_MAX_WEBP_SIDE = 16_383

_SLOW = frozenset({"AVIF", "WEBP"})
_MAX_SLOW_PIXELS = 16_000_000
"""Largest image that is encoded again in these formats, which need much memory. Larger ones become JPEG or PNG."""

_MAX_COMPRESSED_PIXELS = 8_000_000
"""Largest PNG or lossless WebP that is compressed well. Larger ones would take too long."""

_LOSSLESS_EFFORT, _LOW_LOSSLESS_EFFORT = 60, 20
"""Pillow's `quality` of a lossless WebP. Above 60 a photograph takes more than twice the CPU time for no gain."""

_NO_METADATA: dict[str, Any] = {"exif": b"", "icc_profile": None, "xmp": b""}
_SPEED: dict[str, dict[str, Any]] = {
    "PNG": {},
    "GIF": {},
    "WEBP": {"quality": 90, "method": 2},
    "AVIF": {"quality": 80, "speed": 9},
}
"""Parameters of formats: each is a compromise between CPU time and size."""


def save_still(cleaned: Image.Image, target: BinaryIO, original: Image.Image, *, is_lossless: bool) -> str:
    """Write an image in the format of the original if browsers display it. Returns the type.

    is_lossless: of a WebP.
    """
    name = original.format or ""
    if name in {"JPEG", "MPO"}:
        return _save_jpeg(cleaned, target, _kept_quality(cleaned, original))
    if name in _SLOW and cleaned.width * cleaned.height > _MAX_SLOW_PIXELS:
        name = "HEIF"
    if name == "HEIF" or (name == "TIFF" and original.info.get("compression") == "jpeg"):
        if _is_transparent(cleaned):
            return _save(cleaned, target, "PNG")
        return _save_jpeg(cleaned, target, {"quality": _JPEG_QUALITY})
    if name == "WEBP":
        return _save(cleaned, target, name, **_webp_settings(cleaned, is_lossless=is_lossless))
    return _save(_for_png(cleaned), target, name if name in _SPEED else "PNG")


def save_animation(animation: Animation, target: BinaryIO, original: Image.Image, *, is_lossless: bool) -> str:
    """Write an animation in its own format. Returns the type.

    Encoders read the durations while they decode the frames.
    """
    name = original.format or ""
    settings: dict[str, Any] = {"save_all": True, "duration": animation.durations}
    if "loop" in original.info:
        settings["loop"] = original.info["loop"]
    if name == "GIF" and animation.has_transparency_data:
        # Pixels that become transparent must be cleared.
        settings["disposal"] = 2
    if name == "WEBP":
        settings |= _webp_settings(animation, is_lossless=is_lossless)
    return _save(animation, target, name, **settings)


def save_thumbnail(image: Image.Image, target: BinaryIO) -> str:
    """Write a thumbnail: a JPEG, or a WebP if parts are transparent. Returns its type."""
    if not _is_transparent(image):
        return _save_jpeg(image, target, {"quality": _THUMBNAIL_QUALITY})
    if max(image.size) > _MAX_WEBP_SIDE:
        return _save(image, target, "PNG")
    return _save(image, target, "WEBP", quality=_THUMBNAIL_QUALITY)


def _save(image: Image.Image, target: BinaryIO, name: str, **settings: Any) -> str:
    if name == "PNG" and image.width * image.height > _MAX_COMPRESSED_PIXELS:
        settings["compress_level"] = 1
    _encode(image, target, name, _SPEED[name] | settings)
    return f"image/{name.lower()}"


def _webp_settings(image: Image.Image, *, is_lossless: bool) -> dict[str, Any]:
    if not is_lossless:
        return {}
    is_large = image.width * image.height > _MAX_COMPRESSED_PIXELS
    return {"lossless": True, "quality": _LOW_LOSSLESS_EFFORT if is_large else _LOSSLESS_EFFORT}


def _encode(image: Image.Image, target: BinaryIO, name: str, settings: dict[str, Any]) -> None:
    # Pillow does not notice that a file was written in part only, for example on a full disk.
    encoded = BytesIO()
    image.save(encoded, format=name, **_NO_METADATA | settings)
    rest = encoded.getbuffer()
    while rest:
        rest = rest[target.write(rest) :]


def _is_transparent(image: Image.Image) -> bool:
    if not image.has_transparency_data:
        return False
    alpha = image.convert("RGBA").getchannel("A") if image.mode == "P" else image.getchannel("A")
    return alpha.histogram()[255] < image.width * image.height


def _for_png(image: Image.Image) -> Image.Image:
    return image.convert("RGB") if image.mode == "CMYK" else image


def _save_jpeg(image: Image.Image, target: BinaryIO, quality: dict[str, Any]) -> str:
    if image.mode not in {"L", "RGB"}:
        image = image.convert("RGB")
    _encode(image, target, "JPEG", {"optimize": True} | quality)
    return "image/jpeg"


def _kept_quality(cleaned: Image.Image, original: Image.Image) -> dict[str, Any]:
    """Return settings with which the image loses as little as possible: those of the original where they fit."""
    tables = getattr(original, "quantization", {})
    if original.mode != cleaned.mode or cleaned.mode not in {"L", "RGB"} or not tables:
        return {"quality": _JPEG_QUALITY}
    if original.info.get("adobe_transform") == 0 or max(map(max, tables.values())) > 255:
        return {"quality": _JPEG_QUALITY}
    sampling = JpegImagePlugin.get_sampling(original)
    # 4:2:2 is not symmetrical: a rotated image would lose resolution in both directions.
    symmetrical = sampling if sampling in {0, 2} else 0
    return {"qtables": tables, "subsampling": symmetrical if cleaned.mode == "RGB" else -1}


def is_lossless(source: BinaryIO) -> bool:
    """Return whether a WebP has lossless frames, by the first chunk with an image (RFC 9649)."""
    at = 12
    while True:
        source.seek(at)
        header = source.read(8)
        if len(header) < 8 or header[:4] == b"VP8 ":
            return False
        if header[:4] == b"VP8L":
            return True
        # Frames contain chunks of their own.
        at += 8 + 16 if header[:4] == b"ANMF" else 8 + int.from_bytes(header[4:], "little") + header[4] % 2
