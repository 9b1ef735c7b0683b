"""The routes of files."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import NamedTuple

from starlette.routing import Route

from resolvers.base.app import Confab
from resolvers.base.file_addresses import FILES_PATH
from resolvers.files.thumbnails import Thumbnails
from resolvers.previews.pictures import Pictures
from server.files.answers import refuse_while_overloaded
from server.files.cross_origin import AllowAllOrigins
from server.files.downloads import FILE_PATTERN, FileDownloads
from server.files.pictures import PICTURE_PATTERN, PictureDownloads
from server.files.streaming import Downloads
from server.files.upload_endpoint import UploadEndpoint
from server.http.overload_responses import LoadSheddingMiddleware
from server.overload.load_shedding import LoadShedding


class FileEndpoints(NamedTuple):
    """The endpoints of files of one process. All but `routes` have counters for metrics."""

    routes: list[Route]
    uploads: UploadEndpoint
    downloads: Downloads
    thumbnails: Thumbnails


def file_endpoints(
    app: Confab, pictures: Pictures, downloads: Downloads, load_shedding: LoadShedding, stack: AsyncExitStack
) -> FileEndpoints:
    """Return the endpoints of addresses of files. What they run ends with `stack`."""
    store = app.store
    thumbnails = Thumbnails(store.files, store.blobs, app.inspector, store.clock)
    stack.push_async_callback(thumbnails.close)
    files = FileDownloads(app, downloads, thumbnails)
    picture_downloads = PictureDownloads(app, downloads, pictures.find_or_fetch)
    uploads = UploadEndpoint(app)
    receiving = AllowAllOrigins(LoadSheddingMiddleware(uploads, load_shedding))
    routes = [
        Route(FILE_PATTERN, LoadSheddingMiddleware(files, load_shedding, refuse_while_overloaded)),
        Route(PICTURE_PATTERN, LoadSheddingMiddleware(picture_downloads, load_shedding, refuse_while_overloaded)),
        Route(f"{FILES_PATH}/{{file}}", receiving, methods=["PUT", "OPTIONS"]),
    ]
    return FileEndpoints(routes, uploads, downloads, thumbnails)
