"""The stack on one machine: the packaged template deployed to an emulated AWS, with a friendly address in front."""
