"""What a release leaves open, and which tests check what it promises.

The risks are those of docs/understand/weaknesses.md, said of one release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexveil.publishing.prose import Bullets, Section, Table, Text

if TYPE_CHECKING:
    from hexveil.publishing.dossier_facts import Facts

TESTS = (
    (
        (
            "A unit moves a published mean by no more than what is booked for it: search over all "
            "neighbours of tiny data sets"
        ),
        "tests/publishing/test_linear.py",
    ),
    (
        "The same of a published variance, and its noise",
        "tests/publishing/test_variance.py",
    ),
    (
        "The same of means made in several private steps, whatever was found",
        "tests/publishing/test_stepped.py",
    ),
    (
        "A unit's loss is never less than the largest ratio of probabilities over its neighbours",
        "tests/theory/test_loss.py",
    ),
    (
        "Noise has the planned scale; scales that are a fifth off are rejected",
        "tests/noise/test_secure.py",
    ),
    (
        "Mechanisms for one cell withstand a statistical attack, and broken ones do not",
        "tests/experiments/audit/test_run.py",
    ),
    (
        "The whole path from a file to a folder withstands a statistical attack",
        "tests/attack/test_path_audit.py",
    ),
    (
        "Published numbers lie on the declared grid, whatever the values",
        "tests/attack/test_grid.py",
    ),
    (
        "The loss is booked before noise is drawn; the same request again draws nothing",
        "tests/publishing/test_release.py",
    ),
    (
        "The ledger books each unit once and exactly, and refuses what exceeds the budget",
        "tests/ledger/test_contract.py",
    ),
    (
        "Killed at any moment, nothing unpaid is shown and no release has two answers",
        "tests/attack/test_crash.py",
    ),
    (
        "No id and no value in a message, log, error or file, whatever the input",
        "tests/attack/test_leaks.py",
    ),
    (
        "Nothing but the noisy numbers differs between neighbouring records",
        "tests/attack/test_neighbours.py",
    ),
    (
        "Which records count, clamping and rounding: every rule against a plain second program",
        "tests/records/test_read.py",
    ),
    (
        "Code that plans and code that reports cannot import code that reads records",
        "tests/test_imports.py",
    ),
    (
        "A release folder is there whole or not at all, and states its guarantee",
        "tests/publishing/test_folder.py",
    ),
    (
        "Changes to a release folder are noticed by its recipient",
        "tests/publishing/test_checking.py",
    ),
    (
        "The promise holds where values of units are alike, and every text words it in one way",
        "tests/report/test_promise.py",
    ),
    (
        "Cells that a private range may have cut off are graded so",
        "tests/publishing/test_cut_off.py",
    ),
    (
        "This text: every name shown as it is, no legal conclusion, all files named here exist",
        "tests/publishing/test_dossier.py",
    ),
)
"""What is checked, and the file in the project's source that checks it."""


def not_protected(facts: Facts) -> Bullets:
    """Return what the guarantee does not cover."""
    return Bullets(
        (
            facts.said["guarantee"]["not_protected"],
            (
                "What users have in common can also be held against a person who is known to be "
                "among them."
            ),
        )
    )


def residual_risks(facts: Facts) -> Bullets:
    """Return what can go wrong although the guarantee holds, or makes it hold less."""
    rules = facts.said["rules"]
    found = [
        (
            "Presence: who reported how often where is treated as public. If presence is the "
            "secret, as with private cars, taxis, phones or people, this guarantee does not cover "
            "it."
        ),
        (
            "Several ids: if one person or vehicle reports under k ids, its loss is up to the sum "
            "over them."
        ),
        (
            "Ties between units: what k units have in common is protected by the sum of their "
            "losses only."
        ),
        (
            "Other releases: losses add up over everything that is released from the same values. "
            "Two ledgers for the same records add up too, and only their holders can see that."
        ),
        (
            "Rollback: if the ledger is replaced by an older copy, what was booked since is "
            "forgotten and could be spent again. Chain hashes in release folders show it as far as "
            "these survive outside the holder's reach."
        ),
        (
            "The holder's machine: it reads the records, may keep some of them in a temporary "
            "folder while it runs, and has its own logs and backups."
        ),
        (
            "Randomness: noise is as unpredictable as the random numbers of the machine that draws "
            "it."
        ),
        "Timing and memory: how long a release takes is not made independent of the values.",
        (
            "Malformed rows: lines that no parser can read "
            f"({rules.get('unparsable', 'number not said')} here) are dropped like records without "
            "a usable value, under the same assumption."
        ),
        (
            "Choices made by looking: bounds, step, cells or a prior that somebody chose from the "
            "values give something away that no loss accounts for."
        ),
    ]
    return Bullets(tuple(found))


def checked() -> Section:
    """Return which test checks what."""
    return Section(
        "Which test checks what",
        (
            Text(
                "Files in the source of hexveil. A test can refute a claim of privacy, never "
                "prove it; the proofs stand beside the code, in publishing/linear.py, "
                "publishing/variance.py and theory/loss.py."
            ),
            Table(("what is checked", "file"), TESTS),
            Text(
                "hexveil verify checks the files of a release folder against each other. That "
                "noise was drawn as stated cannot be seen from a folder."
            ),
        ),
    )
