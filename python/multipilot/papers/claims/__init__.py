"""What a paper claims, as data, and what our measurements say of each claim.

    quantity  values by name, and what can be computed from them
    predicate  the predicates of ``claims.toml``: within, ratio, compare, order, monotone, alike, all, none
    claim     ``claims.toml`` as it is read
    judge     a claim, a world, and its verdict: holds, contradicted, undecided, not testable
    table     the table that opens a page
    picture   the picture below it
    lock      ``claims.lock``, the verdicts in git

No sentence about a result is written by hand. A claim may have a template for each verdict; the page shows the template
of the verdict that came out, with computed values filled in.
"""

from multipilot.papers.claims.claim import Claim, Claims, load
from multipilot.papers.claims.judge import Judgement, judge
from multipilot.papers.claims.quantity import Wrong

__all__ = ["Claim", "Claims", "Judgement", "Wrong", "judge", "load"]
