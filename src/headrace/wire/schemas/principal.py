"""A principal in the form in which a broker forwards it to the controller inside an Envelope (KIP-590)."""

from __future__ import annotations

from headrace.wire.notation import message


@message(versions=range(1), flexible_from=0)
class DefaultPrincipalData:
    type: str = ""
    name: str = ""
    token_authenticated: bool = False  # by a delegation token
