"""Authentication and authorization: principals, scopes over names, tokens of an issuer, and a policy. Independent of HTTP and AWS.

A ``Principal`` decides whether it may use a ``Scope`` on a name. Anything that is not granted is denied.
"""
