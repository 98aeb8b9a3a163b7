"""The dossier of a release: what a privacy officer reads, completes and signs.

Made from a release folder's manifest alone: public facts, no record, no ledger. It says what is
protected from whom, to which degree, on which assumptions, and what is left open. It draws no legal
conclusion; what only the controller knows is a place to fill in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexveil.publishing import dossier_facts
from hexveil.publishing import dossier_limits as limits
from hexveil.publishing import dossier_words as words
from hexveil.publishing.dossier_assessments import impact_assessment, nist, notice
from hexveil.publishing.dossier_facts import NAME
from hexveil.publishing.prose import Bullets, Section, Table, Text, ToFill
from hexveil.publishing.receipt import NAME as RECEIPT
from hexveil.report.facts import up_to_digits
from hexveil.report.promise import IN_COMMON

if TYPE_CHECKING:
    from pathlib import Path

    from hexveil.publishing.dossier_facts import Facts


def dossier(folder: Path) -> Section:
    """Return the dossier of a release folder.

    Raises
    ------
    InputError
        If the folder has no manifest of this version, or one that is broken or was changed.
    StorageError
        If the disk fails.
    """
    facts = dossier_facts.read(folder)
    return Section(
        f"Privacy dossier of release {facts.said['request'][:16]}",
        (
            Text(
                f"Made by hexveil dossier from {NAME} of the release folder, which holds public "
                "facts only. It states facts and leaves places for the controller to fill in; it "
                "draws no legal conclusion."
            ),
            _about(facts),
        ),
        (
            _protected(facts),
            _promise(facts),
            _neighbours(facts),
            _odometer(facts),
            Section("Assumptions", (Bullets(tuple(facts.said["guarantee"]["assumptions"])),)),
            Section("What is not protected", (limits.not_protected(facts),)),
            Section("Residual risks", (limits.residual_risks(facts),)),
            limits.checked(),
            impact_assessment(facts),
            nist(facts),
            notice(facts),
            _signature(),
        ),
    )


def _about(facts: Facts) -> Table:
    data, ledger = facts.said["dataset"], facts.said["ledger"]
    rows = [
        ("data set", data["name"]),
        ("version declared by the holder", data["version"] or "not declared"),
        ("published", words.heading(facts)),
        ("cells", words.cells(facts)),
        ("request", facts.said["request"]),
        (f"SHA-256 of {NAME}", facts.checksum),
        (RECEIPT, f"there; its checksum of {NAME} agrees" if facts.has_receipt else "not there"),
    ]
    if ledger is None:
        rows.append(("ledger", "none: the release cost nothing"))
    else:
        rows.append(("ledger entry", str(ledger["entry"])))
        rows.append(("ledger chain hash", ledger["chain"]))
    made = ", ".join(f"{name} {number}" for name, number in facts.said["software"].items())
    return Table(("what", "which"), (*rows, ("software", made)))


def _protected(facts: Facts) -> Section:
    return Section(
        "What is protected, and from whom",
        (
            Bullets(
                (
                    (
                        f"Protected: the values of {words.PROTECTED[facts.unit]}. The unit of "
                        f"privacy is the {facts.unit}; a user is whoever one id in the records "
                        "stands for."
                    ),
                    (
                        "From: everybody who sees the release, now or later, also if they know "
                        "the values of all other units."
                    ),
                    (
                        "Not from: the holder of the records, and whoever has access to the "
                        "records, to the machine that reads them, or to other results made from "
                        "them."
                    ),
                    "The kind of guarantee: pure epsilon-differential privacy for that unit.",
                )
            ),
        ),
    )


def _promise(facts: Facts) -> Section:
    asked = facts.said["guarantee"]["epsilon_asked"]
    composed = facts.said["guarantee"]["composed_epsilon"]
    more = (
        "losses of one user add up over releases."
        if facts.unit == "user"
        else "losses of one user add up over its units, in this release or in several."
    )
    said = [words.promise(facts)]
    if facts.loss:
        said.append(
            f"Rows for several are upper bounds: {more} They hold if nothing else is released from "
            "the same values."
        )
        said.append(
            f"The run asked for epsilon {asked}. Counting cells would have claimed {composed} for "
            "the same noise."
        )
    said += [words.INSIDERS, IN_COMMON]
    return Section("The promise", (*map(Text, said), words.repeated(facts)))


def _neighbours(facts: Facts) -> Section:
    return Section(
        "Neighbouring data",
        (
            Text(
                "The guarantee compares any two data sets that differ in this way: "
                f"{facts.said['guarantee']['neighbours']}."
            ),
        ),
    )


def _odometer(facts: Facts) -> Section:
    losses = facts.said["losses"]
    shown = (
        ("the most exposed unit", "max"),
        ("99 percent lose at most", "p99"),
        ("90 percent lose at most", "p90"),
        ("half (the median) lose at most", "median"),
        ("average", "mean"),
    )
    rows = [(label, up_to_digits(losses[key], 4)) for label, key in shown]
    rows += [("units that lose nothing", str(losses["at_zero"])), ("units", str(losses["users"]))]
    place = facts.said["ledger"]
    where = (
        "This release cost nothing and was not booked."
        if place is None
        else "Each unit's loss was booked before noise was drawn; the published numbers stand at "
        f"entry {place['entry']} of the holder's ledger."
    )
    return Section(
        "Odometer: what units lose",
        (
            Text("In this release, in epsilon, rounded up:"),
            Table(("unit", "loss in epsilon"), (*rows,)),
            Text(f"{where} What units have spent in all releases stands in that ledger only."),
            ToFill("what the ledger shows as spent and left, and over which window"),
        ),
    )


def _signature() -> Section:
    return Section(
        "Signature",
        tuple(map(ToFill, ("name and role", "decision and its conditions", "place and date"))),
    )
