"""Files of the archive: objects, contents, uploads, and changes of metadata."""
