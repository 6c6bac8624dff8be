"""Deploys a stage to an account: ``make deploy``, ``diff``, ``destroy`` and ``smoke``.

The package uses CloudFormation and the packaged template without knowing the template's content. Profile, region and endpoint come
from the environment, as for the AWS command line, so the same commands work on the emulator.
"""
