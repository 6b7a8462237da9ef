"""Boxes that hide next to nothing beside much payload: are attributes of people among it? It is asked, not refused."""

from __future__ import annotations

from kanonflow.schemas.policy import Policy

NOTHING = 0.001
"""GCP up to which boxes hide next to nothing: who is alike in all quasi-identifiers was so before."""
MANY = 5
"""Payload fields whose risk nobody accepted: from so many on some are likely to be of people, and not of a booking."""


def idle_boxes(loss: float | None, policy: Policy) -> str | None:
    """The question; None: there is none. loss: mean GCP, of a sample or of releases; None: there are no boxes."""
    fields = [field.name for field in policy.payload if field.accept_risk is None]
    if loss is None or loss > NOTHING or len(fields) < MANY:
        return None
    return (
        f"the boxes hide next to nothing: mean loss {loss:.2g} with {len(fields)} payload fields"
        f" ({', '.join(fields)}): are attributes of people among them? Those belong into the boxes (role: quasi) or"
        " nowhere (role: identifier); who has looked says accept_risk: <reason>"
    )
