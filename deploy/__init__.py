"""Deploying a stage to an account: what ``make deploy``, ``diff``, ``destroy`` and ``smoke`` do.

Knows CloudFormation and the packaged template, nothing of what is in it. AWS is found as the AWS command line finds it: profile, region and
endpoint by the environment, so that the same commands work on the emulator.
"""
