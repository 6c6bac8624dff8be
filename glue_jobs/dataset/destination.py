"""The destination of a dataset, by its URI."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from chalicelib.errors import InvalidConfigurationError
from glue_jobs.dataset.files import Files, LocalFiles


def destination(uri: str) -> Files:
    """The files below ``s3://bucket/prefix`` (or s3a://), ``file:///folder``, or a path. Raises InvalidConfigurationError."""
    url = urlsplit(uri)
    if url.scheme in ("s3", "s3a"):
        from glue_jobs.dataset.s3_destination import s3_files

        if not url.netloc or not url.path.strip("/"):
            raise InvalidConfigurationError(f"a destination on S3 is s3://bucket/prefix uri={uri}")
        return s3_files(url.scheme, url.netloc, url.path.strip("/"))
    if url.scheme not in ("", "file") or not url.path or url.netloc:
        raise InvalidConfigurationError(f"a destination is s3://bucket/prefix, file:///folder or a path uri={uri}")
    return LocalFiles(Path(uri.removeprefix("file://")))
