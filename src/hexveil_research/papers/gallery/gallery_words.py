"""Words of the gallery of the papers' figures: each figure's message, and what was found here.

Numbers are not written here: the page takes them from the claims that were computed.
"""

from __future__ import annotations

from dataclasses import dataclass

HEAD = """\
# The papers' figures

*For readers of the papers: every figure drawn again, beside what the paper concludes from it.*

On simulated and synthetic data. One command draws the figures, writes the \
[data behind them](../figures/paper-figures.json), tries every claim, and writes this page:

```sh
python -m hexveil_research.papers.gallery.paper_gallery docs
```

Each point is the mean of {trials} simulated releases per cell; *hexveil* marks our own lines. \
[Reproduce the papers](../how-to/reproduce.md) tells how to draw them from your own counts or \
records, and how claims are judged.
"""

TALLY = """\
## Claims in numbers

A statement counts once, however often it was tried. "On other records than the paper's": its own \
data are not published, so the verdict is about data that share all published facts. All claims, \
with what was measured, are in a [CSV file](../figures/paper-claims.csv).

{tally}

What fails as printed is in the [errata](errata.md), each with its corrected form.
"""

END = """\
**Next:** [errata of the papers](errata.md) · [map of the theory](map-of-theory.md) · \
[reproduce the papers](../how-to/reproduce.md), from your own data, too
"""


@dataclass(frozen=True)
class FigureWords:
    """Words beside a figure.

    Attributes
    ----------
    paper : str
        What the paper concludes from it, in our words.
    result : str
        Whether that holds here, and why.
    """

    paper: str
    result: str


_CHOICE = (
    "The exponential mechanism as printed errs about as much as permute-and-flip, as released."
)
_RISK = "The joint plan beside it has the same worst-case error at a fraction of the loss."

FIGURES = {
    "iot:fig1": FigureWords(
        "Packing users into arrays with BESTFIT, not WRAPAROUND, lowers the error of LEVY and "
        "FIXEDQUANTILE much; ARRAY-AVERAGING errs about as much under both.",
        "The first holds for FIXEDQUANTILE: a user reaches one array, not two. For LEVY the "
        "error is smaller at every ε, by how much is left open. The second fails with the printed "
        "noise of WRAPAROUND (erratum 7); with the noise that is needed, both err alike.",
    ),
    "iot:fig2": FigureWords(
        "On a cell of real buses all algorithms that clip err much less than BASELINE, and hardly "
        "differ from each other.",
        "Clipping helps as printed. How much the algorithms differ depends on how unlike the "
        f"buses are, which is not published. {_CHOICE}",
    ),
    "iot:fig3": FigureWords(
        "With ten times as many samples of each user LEVY is best: averages of long arrays lie "
        "close together, and its private interval becomes narrow.",
        f"Our results agree. {_CHOICE}",
    ),
    "iot:fig4": FigureWords(
        "With ten times as many users FIXEDQUANTILE is best, and ARRAY-AVERAGING second.",
        "Our results agree. Foresight's jump between ε = 1.6 and 1.7 is a change of its public "
        "design, explained on the [page about reproduction](../how-to/reproduce.md). " + _CHOICE,
    ),
    "iot:fig5": FigureWords(
        "The cap of least worst-case error grows with ε in steps, and every step is one of the "
        "counts.",
        "It does. The second panel adds what the caps cost: optimal clipping is better than any "
        "cap, and at small ε the middle of the bounds is better than all of them.",
    ),
    "rw:fig1": FigureWords(
        "RW's algorithms err much less than BASELINE on a cell of real buses, with little "
        "difference between them.",
        "As for IOT's figure 2, whose cell this is. RW describes OPT-ARRAY-AVERAGING without "
        "drawing it: its cap is best for the worst data, and worse than the median on typical "
        f"data. {_CHOICE}",
    ),
    "rw:fig2": FigureWords(
        "LEVY is best with ten times the samples of each user, FIXEDQUANTILE with ten times the "
        "users.",
        f"Our results agree in both panels. {_CHOICE}",
    ),
    "comp:fig1": FigureWords(
        "In an hour of a real city CLIP-USER lowers the privacy loss at most ε, at no larger "
        "worst-case error.",
        "It does, on an hour of a simulated city. Constants have no larger error at "
        "no loss, as the joint plan reports.",
    ),
    "comp:fig2": FigureWords(
        "Caps after CLIP-USER improve the worst-case error of that hour little or not at all, "
        "since the worst cell has very few samples.",
        "The improvement is little, on an hour of a simulated city; the reason does not carry "
        "over. Above the grey line a release is worse than two constants (erratum 4).",
    ),
    "comp:fig3": FigureWords(
        "On the synthetic set, gamma = 3, CLIP-USER lowers the loss from Gε to Kε.",
        "It does. The very same release without any suppression loses less than Kε for most ε, "
        f"if each user's loss is accounted exactly (erratum 3). {_RISK}",
    ),
    "comp:fig4": FigureWords(
        "The same with heavier users, gamma = 6: more is gained.", f"As in figure 3. {_RISK}"
    ),
    "comp:fig5": FigureWords(
        "The same with the heaviest users, gamma = 9.", f"As in figure 3. {_RISK}"
    ),
    "comp:fig6": FigureWords(
        "On the synthetic set, gamma = 3, caps after CLIP-USER lower the worst-case error below "
        "that without suppression.",
        "They do, with the halted stage undone and as printed. For most ε the error is still "
        "above that of two constants that cost no privacy (erratum 4); the joint plan at the "
        "loss Kε is below both.",
    ),
    "comp:fig7": FigureWords(
        "The same with heavier users, gamma = 6: caps gain more.", "As in figure 6."
    ),
    "comp:fig8": FigureWords("The same with the heaviest users, gamma = 9.", "As in figure 6."),
    "wc:fig1": FigureWords(
        "On the worst data set, all samples at U, optimal clipping errs much less than AKMV, for "
        "a large range of ε.",
        "It does, with the corrected formula of the least error (erratum 5). Foresight and "
        "Auto choose by a prior and have no proven worst case; their largest error on four data "
        "sets is far above that of optimal clipping.",
    ),
    "wc:fig2": FigureWords(
        "On uniform samples of the geometric collection the worst-case error of optimal clipping "
        "lies below AKMV's average error.",
        "It does, at every ε drawn.",
    ),
    "wc:fig3": FigureWords(
        "The same on the extreme-valued collection with normal samples.",
        "It does for most ε. The paper's N(U/2, U/4) can be read in two ways; both are drawn.",
    ),
}
"""By the names of the studies."""
