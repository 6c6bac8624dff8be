"""Who asks, and what they may do: principals, scopes over names, tokens of an issuer, a policy. Knows no HTTP and no AWS.

A decision is a question to a ``Principal``: may it do this (a ``Scope``) to that (a name)? Whatever nobody granted is refused.
"""
