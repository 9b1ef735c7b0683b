"""Images: only their pixels remain, in a format that browsers display."""

from __future__ import annotations

import base64
from importlib import import_module
from typing import BinaryIO

from PIL import Image, ImageCms, TiffImagePlugin, UnidentifiedImageError

from resolvers.files.inspection.decoding import pixels, saving, thumb_hash
from resolvers.files.inspection.decoding.animation import Animation
from resolvers.files.inspection.decoding.jobs import Answer, CannotDecode, DecodingLimits

FORMATS = {
    "image/jpeg": "JPEG",
    "image/png": "PNG",
    "image/gif": "GIF",
    "image/webp": "WEBP",
    "image/avif": "AVIF",
    "image/bmp": "BMP",
    "image/tiff": "TIFF",
    "image/heic": "HEIF",
}
"""Pillow's names of the formats that are decoded, by type."""

_STORED_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "AVIF")
"""Formats in which cleaned images are stored."""

_PLUGINS = ("Jpeg", "Mpo", "Png", "Gif", "WebP", "Avif", "Bmp", "Tiff")
_ANIMATED = frozenset({"GIF", "PNG", "WEBP", "AVIF"})

_SUB_DIRECTORIES, _DNG_VERSION = 330, 50706


def load_libraries() -> None:
    """Import the plugins of the formats."""
    # The own limits are stricter, and are checked before anything is decoded.
    Image.MAX_IMAGE_PIXELS = None
    for name in _PLUGINS:
        import_module(f"PIL.{name}ImagePlugin")
    # An extra: its libraries have the LGPL.
    if _has_heif():
        import_module("pi_heif").register_heif_opener(thumbnails=False)
    Image.preinit()
    ImageCms.createProfile("sRGB")


def _has_heif() -> bool:
    try:
        import_module("pi_heif")
    except ImportError:
        return False
    return True


def clean(source: BinaryIO, target: BinaryIO, content_type: str, limits: DecodingLimits) -> Answer | None:
    """Write an image that has the same pixels and nothing else. Returns None for a TIFF that is a document."""
    image = _open(source, (FORMATS[content_type],), limits)
    if isinstance(image, TiffImagePlugin.TiffImageFile) and _is_document(image):
        return None
    is_lossless = image.format == "WEBP" and saving.is_lossless(source)
    numbers = _list_frames(image, limits)
    if len(numbers) > 1:
        animation = Animation(image, numbers)
        saved = saving.save_animation(animation, target, image, is_lossless=is_lossless)
        animation.seek(0)
        first = animation.copy()
    else:
        first = pixels.clean(image)
        saved = saving.save_still(first, target, image, is_lossless=is_lossless)
    return {
        "content_type": saved,
        "is_written": True,
        "width": first.width,
        "height": first.height,
        "thumb_hash": _thumb_hash(first),
        "is_image": True,
    }


def scale(source: BinaryIO, target: BinaryIO, width: int, limits: DecodingLimits) -> Answer:
    """Write a thumbnail of a cleaned image, of its first frame if it is an animation."""
    image = _open(source, _STORED_FORMATS, limits)
    if image.width > width:
        # A JPEG is decoded at a fraction of its size.
        image.draft(None, (width, image.height * width // image.width))
    first = pixels.clean(image)
    if first.width > width:
        first = pixels.resize(first, width, max(1, round(first.height * width / first.width)))
    return {"content_type": saving.save_thumbnail(first, target), "is_written": True}


def _open(source: BinaryIO, formats: tuple[str, ...], limits: DecodingLimits) -> Image.Image:
    if formats == ("HEIF",) and "HEIF" not in Image.OPEN:
        raise CannotDecode("HEIC images need confab[heif]")
    try:
        image = Image.open(source, formats=formats)
    except UnidentifiedImageError:
        raise CannotDecode("the header is broken") from None
    if image.width * image.height > limits.max_pixels:
        raise CannotDecode(f"{image.width} x {image.height} are more than {limits.max_pixels} pixels")
    return image


def _is_document(image: TiffImagePlugin.TiffImageFile) -> bool:
    """Return whether a TIFF has several pages or pictures: scanned documents, and raw photographs of cameras."""
    return image.n_frames > 1 or _SUB_DIRECTORIES in image.tag_v2 or _DNG_VERSION in image.tag_v2


def _list_frames(image: Image.Image, limits: DecodingLimits) -> range:
    if image.format not in _ANIMATED:
        return range(1)
    count = getattr(image, "n_frames", 1)
    if count > limits.max_frames:
        raise CannotDecode(f"{count} frames are more than {limits.max_frames}")
    if count * image.width * image.height > limits.max_total_pixels:
        raise CannotDecode(f"the frames have more than {limits.max_total_pixels} pixels")
    # The first image of an APNG may be one for programs that show no animations.
    return range(1 if getattr(image, "default_image", False) else 0, count)


def _thumb_hash(image: Image.Image) -> str:
    small = image.convert("RGBA") if image.mode == "P" else image
    ratio = min(1.0, thumb_hash.MAX_SIDE / max(image.size))
    width, height = max(1, round(image.width * ratio)), max(1, round(image.height * ratio))
    small = pixels.resize(small, width, height).convert("RGBA")
    return base64.b64encode(thumb_hash.encode(width, height, small.tobytes())).decode()
