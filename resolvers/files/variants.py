"""Which thumbnails a file has: the one rule for the addresses that are issued and those that are served."""

from __future__ import annotations

from resolvers.files.inspection.results import THUMBNAIL_WIDTHS, thumbnail_width


def variant_for(image_width: int | None, width: int) -> int | None:
    """Return the width of the thumbnail of an image that is shown at a width; None: the image itself.

    Thumbnails are never larger than the image.
    """
    return reduced_width(image_width, thumbnail_width(width))


def reduced_width(image_width: int | None, variant: int) -> int | None:
    """Return the width of the thumbnail that an address of a variant stands for; None: the image itself."""
    return variant if image_width is not None and variant < image_width else None


def is_variant(variant: int) -> bool:
    """Return whether images have thumbnails of this width."""
    return variant in THUMBNAIL_WIDTHS
