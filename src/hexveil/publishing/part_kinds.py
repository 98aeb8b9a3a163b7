"""How each kind of part is published: its table, its manifest, and the columns it needs.

The registry of kinds (planning/part.py): a new kind is a file, and a line here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hexveil.base.work_share import ESTIMATES, RELEASING, SEARCH, share_of_work
from hexveil.planning.distribution.distribution_plan import DistributionPart
from hexveil.planning.moment_part import MomentPart
from hexveil.planning.presence.presence_plan import PresencePart
from hexveil.publishing.distribution.distribution_manifest import build_distribution_manifest
from hexveil.publishing.distribution.distribution_table import check_label_columns, decode_release
from hexveil.publishing.estimates.decoded_moments import decode_moments
from hexveil.publishing.estimates.table import check_labels
from hexveil.publishing.manifest import build_manifest
from hexveil.publishing.presence.presence_manifest import presence_manifest
from hexveil.publishing.presence.presence_table import (
    check_label_names,
    decode_outputs,
    map_accuracy,
    released_table,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from hexveil.mechanisms.contract import StagedPlan
    from hexveil.mechanisms.stage_data import Outputs

    Published = tuple[pa.Table, dict[str, Any]]


@dataclass(frozen=True)
class Draw:
    """Outputs of a part's stages, and the release that they belong to.

    Attributes
    ----------
    dataset : str
        Name of the data set in the ledger.
    request : str
        Fingerprint of the request.
    position : mapping or None
        The ledger event that stored the numbers; None if they cost nothing.
    stages : StagedPlan
    outputs : Outputs
    smoothing : bool
        Whether smoothed estimates are asked for.
    """

    dataset: str
    request: str
    position: Mapping[str, Any] | None
    stages: StagedPlan
    outputs: Outputs
    smoothing: bool = False


@dataclass(frozen=True)
class PublishedKind:
    """How a kind of part is published.

    Attributes
    ----------
    publish : callable
        Returns table and manifest of a part, its facts as read and its draw; public.
    check_columns : callable
        Refuses facts with labels by the names of the part's own columns.
    """

    publish: Callable[[Any, Any, Draw], Published]
    check_columns: Callable[[Any, Any], None]


def _publish_moments(component: MomentPart, facts: Any, draw: Draw) -> Published:  # noqa: ANN401
    with share_of_work(RELEASING, 0.0, 0.6, ESTIMATES):
        moments = decode_moments(
            component, draw.stages, draw.outputs, facts, smoothing=draw.smoothing
        )
    # It states the lower bound of all plans.
    with share_of_work(RELEASING, 0.6, 1.0, SEARCH):
        manifest = build_manifest(
            draw.dataset, facts, moments.plan, draw.request, draw.position, moments.smoothed,
            moments.accuracy,
        )  # fmt: skip
    return moments.table, manifest


def _publish_distribution(component: DistributionPart, _: object, draw: Draw) -> Published:
    with share_of_work(RELEASING, 0.0, 0.8, ESTIMATES):
        decoded = decode_release(component, draw.outputs)
    manifest = build_distribution_manifest(
        draw.dataset, component, decoded, draw.request, draw.position
    )
    return decoded.table, manifest


def _publish_presence(component: PresencePart, _: object, draw: Draw) -> Published:
    request, facts = component.request, component.facts
    decoded = decode_outputs(request, draw.outputs)
    table = released_table(request, decoded, facts.value, facts.value_unit)
    accuracy = map_accuracy(decoded)
    manifest = presence_manifest(
        draw.dataset, component, draw.outputs, draw.request, draw.position, accuracy
    )
    return table, manifest


def _check_distribution(component: DistributionPart, facts: Any) -> None:  # noqa: ANN401
    check_labels(facts)
    check_label_columns(facts, component.terms)


PUBLISHED: dict[str, PublishedKind] = {
    MomentPart.kind: PublishedKind(_publish_moments, lambda _, facts: check_labels(facts)),
    DistributionPart.kind: PublishedKind(_publish_distribution, _check_distribution),
    PresencePart.kind: PublishedKind(
        _publish_presence, lambda _, facts: check_label_names(facts.cells)
    ),
}
"""By the kind of a part."""
