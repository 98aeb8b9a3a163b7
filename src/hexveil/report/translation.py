"""The sentences that a manifest states, in the language of its page and README.txt.

A manifest is for programs, and English. Its sentences follow from its facts, so those of another
language are made from these again.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from hexveil.report.accuracy_text import describe_assumption, describe_memory
from hexveil.report.promise_wording import guarantee_sentences
from hexveil.report.templates import in_language


def translate_statements(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a manifest with its sentences on guarantee and accuracy in the language it states."""
    if manifest.get("language", "en") == "en":
        return manifest
    stated = manifest["guarantee"]
    with in_language({}):
        english = describe_memory()
    with in_language(manifest):
        words = guarantee_sentences(
            stated["privacy_unit"],
            Fraction(stated["epsilon_spent"]),
            dropped=(manifest.get("selection") or {}).get("drop_values", "none"),
            protect=stated["protect"],
            delta=Fraction(stated.get("delta", 0)),
            together=manifest.get("columns_together"),
        )
        translated = {**manifest, "guarantee": {**stated, **words}}
        if "accuracy" in manifest:
            memory = f" {describe_memory()}"
            translated["accuracy"] = [
                one
                if "assumption" not in one
                else one
                | {
                    "assumption": describe_assumption(one["basis"])
                    + memory * one["assumption"].endswith(english)
                }
                for one in manifest["accuracy"]
            ]
        return translated
