"""The facts of a release under the headings of two assessments, and a notice for the public.

GDPR Article 35(7) lists what an impact assessment contains, (a) to (d). NIST SP 800-226 lists what
decides whether a claim of differential privacy means anything. Only facts of the release stand
here, and places for what the controller knows; nothing is concluded from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexveil.exact import decimal_text
from hexveil.publishing import dossier_words as words
from hexveil.publishing.prose import Bullets, Section, Text, ToFill
from hexveil.report import cutting
from hexveil.report.promise import EXACT, IN_COMMON, factor_words, probability_factor, promise

if TYPE_CHECKING:
    from hexveil.publishing.dossier_facts import Facts


def impact_assessment(facts: Facts) -> Section:
    """Return the facts under the headings of GDPR Article 35(7)."""
    return Section(
        "Under the headings of GDPR Article 35(7)",
        (Text("Facts of this release that an impact assessment can use."),),
        (_description(facts), _necessity(facts), _risks(facts), _measures(facts)),
    )


def _description(facts: Facts) -> Section:
    data, rules = facts.said["dataset"], facts.said["rules"]
    counts = "; ".join(f"{name}: {number}" for name, number in rules.items())
    selection = "; ".join(f"{name}: {text}" for name, text in facts.said["selection"].items())
    return Section(
        "(a) Systematic description of the processing and its purposes",
        (
            Bullets(
                (
                    (
                        f"Read: {', '.join(data['sources']) or 'not named'}; columns "
                        f"{data['columns'] or 'not said'}."
                    ),
                    f"Values: {data['value']}, clamped to the bounds {words.bounds(facts)}.",
                    f"Records, by rule: {counts or 'not said'}.",
                    (
                        f"Selection: {selection or 'none'}. Repeated records of a user and time: "
                        f"{data['repeats'] or 'not said'}."
                    ),
                    (
                        "Kept of the values while the program runs: a sum, and perhaps a sum of "
                        "squares, for each user and cell."
                    ),
                    f"Published: {words.heading(facts)}; {words.cells(facts)}.",
                    _noise(facts),
                )
            ),
            ToFill("purposes, and where it applies the legitimate interest pursued"),
            ToFill("whom the ids stand for, and whether they can be linked to persons"),
            ToFill("who receives the release; how long records, ledger and its key are kept"),
        ),
    )


def _noise(facts: Facts) -> str:
    if not facts.loss:
        return "No value was read and no noise drawn: every number is a constant."
    plan, steps = facts.said["plan"], words.steps(facts)
    each = "each cell is a whole number with independent discrete Laplace noise, drawn once."
    if words.way(facts) == "users":
        each = (
            "each cell is a whole number with independent discrete Laplace noise, and so is each "
            "average of a class of users, which cells share; drawn once."
        )
    if steps:
        each += f" Private steps, each with its price for whom it costs most: {' '.join(steps)}"
    if len(steps) > 2:
        each += " Each unit is charged the most that any way would cost it."
    return f"Made by: plan {plan['method']}, {plan['mechanism']}; {each}"


def _necessity(facts: Facts) -> Section:
    plan = facts.said["plan"]
    return Section(
        "(b) Necessity and proportionality",
        (
            Bullets(
                (
                    (
                        "Of each record one value is used, with user, place or label, and time; "
                        "ids and single values are not published."
                    ),
                    *words.errors(facts),
                    (
                        f"Cells that are planned to be better than one constant for all: "
                        f"{plan['cells_better_than_constant']} of {len(facts.said['cells'])}."
                    ),
                    f"Price: {words.promise(facts)}",
                )
            ),
            ToFill("why the purposes need these cells and this accuracy, and not coarser ones"),
            ToFill("the basis in law, and how the persons concerned are informed"),
        ),
    )


def _risks(facts: Facts) -> Section:
    limit = (
        f"limited by the promise, for each {facts.unit}"
        if facts.loss
        else "none: no value was read"
    )
    return Section(
        "(c) Risks to rights and freedoms",
        (
            Bullets(
                (
                    f"Learning a person's values from the release: {limit}.",
                    (
                        "Learning presence, places, times or counts: not reduced by this method; "
                        "what the release shows of them is users and records of each cell."
                    ),
                    "Learning a value that follows from places and times: not reduced.",
                    "Conclusions about a person from what users have in common: not reduced.",
                    (
                        "Access to the records, the ledger or the machine: outside the release; "
                        "see the residual risks."
                    ),
                )
            ),
            ToFill("likelihood and severity of each for the persons concerned"),
            ToFill("whether presence, places or times are sensitive here"),
        ),
    )


def _measures(facts: Facts) -> Section:
    said = [
        "Values are clamped to public bounds before they are added up.",
        (
            "What is computed from sums leaves through noise only, and its loss is booked unit by "
            "unit before noise is drawn."
        ),
        "The same request again returns the same numbers and costs nothing.",
        "A release folder does not change once written; its receipt has a checksum of each file.",
    ]
    if facts.said["ledger"] is not None:
        said.append("The ledger is chained by hash; this release names its entry and hash.")
    return Section(
        "(d) Measures to address the risks",
        (
            Bullets((*said, "Tests: see the table above.")),
            ToFill("access to records, machine, ledger and its key; backups; deletion"),
            ToFill("the budget, who may raise it, and when this text is reviewed"),
            ToFill("advice of the data protection officer; views of the persons concerned"),
        ),
    )


def nist(facts: Facts) -> Section:
    """Return the facts under the subjects of NIST SP 800-226."""
    guarantee = facts.said["guarantee"]
    return Section(
        "By the subjects of NIST SP 800-226",
        (Text("The publication asks about these; the headings here are in our words."),),
        (
            _part("Privacy parameter", f"Pure: there is no delta. {words.promise(facts)}"),
            _part("Unit of privacy", f"The {facts.unit}: {words.PROTECTED[facts.unit]}."),
            _part(
                "Neighbouring data",
                f"Bounded: units are neither added nor removed; {guarantee['neighbours']}.",
            ),
            _part(
                "Trust model",
                "Central: the holder reads the records and is trusted, and so are the machine, "
                "the software, the ledger and its key. Recipients are not trusted.",
            ),
            _part("Correctness of mechanism and implementation", *_correctness()),
            _part("Utility", *words.errors(facts)),
            _part("Bias", *_bias(facts)),
            _part(
                "Security and side channels",
                "Running time and memory are not made independent of values. Noise has no seed. "
                "Messages, manifest and ledger hold no value of a record.",
                fill="who can reach the machine, observe it, or read its logs",
            ),
            _part(
                "Data collection exposure",
                "The guarantee starts where the records are read. Collecting, sending and storing "
                "them is outside it.",
                fill="how records are collected and sent, who else has them, when they are deleted",
            ),
        ),
    )


def _part(title: str, *items: str, fill: str | None = None) -> Section:
    places = () if fill is None else (ToFill(fill),)
    return Section(title, (Bullets(items), *places))


def _correctness() -> tuple[str, ...]:
    return (
        (
            "The published statistic is a whole number of public, exact sensitivity; noise is "
            "discrete Laplace from OpenDP, so that no floating point stands between a value and "
            "its noise."
        ),
        "Losses and scales are rounded up; what is left of a budget is rounded down.",
        (
            "Losses of a unit are added up over its cells, and in the ledger over releases, "
            "also where later releases depend on earlier ones."
        ),
    )


def _bias(facts: Facts) -> tuple[str, ...]:
    rules = facts.said["rules"]
    found = [
        (
            "Values outside the bounds are clamped, and units with many records count less than "
            f"their records; the largest worst-case bias of a mean is {words.largest_bias(facts)}."
        ),
        (
            "Cells with few users carry more noise. Quality flags in the tables say where a number "
            "should not be used."
        ),
    ]
    if words.interval(facts) is not None:
        found.append(
            f"The numbers are of {words.cut(facts)}. Bias and bound are about what was cut so; "
            "how far this is from the numbers of all records is not bounded."
        )
        found += cutting.cut_off(facts.said["cut_off"], len(facts.said["cells"]))
    left_out = rules.get("cells left out by selection")
    if left_out:
        found.append(f"Cells left out by the selection, and so without a number: {left_out}.")
    return tuple(found)


def notice(facts: Facts) -> Section:
    """Return a paragraph for the public, in plain words, with the promise."""
    return Section(
        "Notice for the public",
        (Text(_paragraph(facts)), ToFill("whom to ask, and where the release is")),
    )


def _paragraph(facts: Facts) -> str:
    name, what = facts.said["dataset"]["name"], words.heading(facts)
    open_to_all = (
        f"{EXACT} So this does not hide who reported, where, when and how often, nor what follows "
        f"from that. {IN_COMMON}"
    )
    if not facts.loss:
        return (
            f"We publish from {name}: {what}. {promise(facts.unit, facts.loss)} The published "
            f"numbers are constants. {open_to_all}"
        )
    longest = words.SPANS[facts.unit][1]
    most = longest * facts.loss
    return (
        f"We publish from {name}: {what}. Random noise was added to each statistic that was "
        "computed from the values, to limit what the publication reveals about the values of any "
        f"one of those who reported. {promise(facts.unit, facts.loss)} Over {longest} "
        f"{words.COUNTED[facts.unit]}, it differs {factor_words(probability_factor(most))} "
        f"(epsilon {decimal_text(most)}). {open_to_all}"
    )
