"""The local stack: the packaged template deployed to an emulated AWS, behind an address with a fixed port."""
