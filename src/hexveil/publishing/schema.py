"""The JSON Schema of a manifest, with a part for each kind of component."""

from __future__ import annotations

import importlib.resources
import json
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    Json = dict[str, Any]


def with_components(kinds: Mapping[str, Json]) -> Json:
    """Return the JSON Schema of a manifest, for components of these kinds, each with its schema."""
    whole = _file()
    rules: Json = _resolved({k: v for k, v in whole.items() if k != "$defs"}, whole["$defs"])
    components = rules["properties"]["components"]["items"]
    components["properties"] = {"kind": {"enum": [*kinds]}}
    # Not `oneOf`: an error then names the place inside the component.
    components["allOf"] = [
        {"if": {"properties": {"kind": {"const": name}}}, "then": own}
        for name, own in kinds.items()
    ]
    return rules


def component_schema(kind: str) -> Json:
    """Return the JSON Schema of a kind of component that stands in manifest.schema.json."""
    return with_common(kind, _file()["$defs"][kind])


def with_common(kind: str, own: Json) -> Json:
    """Return the JSON Schema of a component: the common part with that of its kind.

    Parameters
    ----------
    kind : str
    own : dict
        With `properties`, and those that are `required`.
    """
    definitions = _file()["$defs"]
    common = definitions["component"]
    properties = {**common["properties"], **own["properties"], "kind": {"const": kind}}
    required = [*common["required"], *own["required"]]
    resolved: Json = _resolved(
        common | own | {"properties": properties, "required": required}, definitions
    )
    return resolved


@cache
def _file() -> Json:
    text = (
        importlib.resources.files(__package__).joinpath("manifest.schema.json").read_text("utf-8")
    )
    content: Json = json.loads(text)
    return content


def _resolved(node: Any, parts: Mapping[str, Any]) -> Any:  # noqa: ANN401  JSON
    """Return a schema with its parts in place of references to them."""
    if isinstance(node, list):
        return [_resolved(entry, parts) for entry in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _resolved(parts[node["$ref"].rpartition("/")[2]], parts)
    return {key: _resolved(entry, parts) for key, entry in node.items()}
