"""Reference pages that the code writes: the command, the fields of a run, the manifest.

They are committed, so that they read on the code host; tests/test_site.py compares them with what
the code gives now. `python website/generated.py` writes them anew.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import typer

from hexveil.cli.app import PANELS, app
from hexveil.cli.endings import Failure
from hexveil.cli.options import FIELDS_PANEL
from hexveil.config.fields import FIELDS, option, section_of
from hexveil.planning.option_rules import RULES, spoken
from hexveil.planning.plan_arguments import PlanArguments
from hexveil.publishing.part_kinds import component_schema, manifest_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"


def cell(text: str) -> str:
    """Return text for a cell of a table: no pipe ends it, no mark of rich is in it."""
    plain = re.sub(r"\\(?=\[)", "", " ".join(text.split()))
    return re.sub(r"(?<!\\)\|", r"\\|", plain)


def table(heads: str, rows: Sequence[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    names = heads.split(" | ")
    head = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    return "\n".join([*head, *(f"| {' | '.join(row)} |" for row in rows)])


# The command


@dataclass(frozen=True)
class Command:
    """One command, as the parser knows it."""

    name: str
    panel: str
    parsed: Any

    @property
    def purpose(self) -> str:
        """Its help, a paragraph a line."""
        paragraphs = re.split(r"\n\s*\n", (self.parsed.help or "").strip())
        return "\n\n".join(" ".join(one.split()) for one in paragraphs)

    @property
    def example(self) -> str:
        """Its example, without the word."""
        return re.sub(r"^\w+:\s+", "", self.parsed.epilog or "")

    @property
    def parameters(self) -> list[Any]:
        """Its arguments and options, without the one that all have."""
        return [p for p in self.parsed.params if "--help" not in p.opts and not p.hidden]


def commands() -> list[Command]:
    """Return every command and sub-command, in the order of the help."""
    group = typer.main.get_command(app)
    return [
        one
        for panel, known in PANELS.items()
        for name in known
        for one in _commands_of(group, "hexveil", name, panel)
    ]


def _commands_of(group: Any, path: str, name: str, panel: str) -> Iterator[Command]:  # noqa: ANN401
    """Yield a command of a group, or those inside it."""
    one = group.get_command(typer.Context(group), name)
    if not hasattr(one, "list_commands"):
        yield Command(f"{path} {name}", panel, one)
        return
    for inside in one.list_commands(None):
        yield from _commands_of(one, f"{path} {name}", inside, panel)


def is_argument(parameter: Any) -> bool:  # noqa: ANN401  the same
    """Return whether a parameter is given by its place."""
    return not parameter.opts[0].startswith("-")


def is_field(parameter: Any) -> bool:  # noqa: ANN401  the same
    """Return whether an option stands for a field of the run file."""
    return getattr(parameter, "rich_help_panel", None) == FIELDS_PANEL


def usage(one: Command) -> str:
    """Return the line of usage."""
    places = [place(p) for p in one.parameters if is_argument(p)]
    options = [] if all(is_argument(p) for p in one.parameters) else ["[OPTIONS]"]
    return " ".join([one.name, *places, *options])


def place(parameter: Any) -> str:  # noqa: ANN401  the same
    """Return how an argument stands in the line of usage."""
    name = (parameter.metavar or parameter.opts[0]).strip("[]").upper()
    name += "..." if parameter.nargs == -1 else ""
    return name if parameter.required else f"[{name}]"


def written(parameter: Any) -> str:  # noqa: ANN401  the same
    """Return how an option is written, with what it takes."""
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    if parameter.is_flag or parameter.count:
        return names
    kind = parameter.metavar or {"Path": "PATH", "int": "NUMBER", "float": "NUMBER"}.get(
        getattr(parameter.type_descriptor.annotation, "__name__", ""), "TEXT"
    )
    return f"{names[:-1]} {kind}`"


def meaning(parameter: Any) -> str:  # noqa: ANN401  the same
    """Return what a parameter does, and what counts where it is left out."""
    text = re.sub(r"\s*\\?\[default: (.+)\]$", r" Default: \1.", cell(parameter.help or ""))
    default = parameter.default
    if isinstance(default, bool) or default in (None, (), []) or callable(default):
        return text + (" Needed." if parameter.required and not is_argument(parameter) else "")
    return f"{text} Default: {cell(str(default))}."


def command_text(one: Command) -> str:
    """Return the part of the page about one command."""
    own = [p for p in one.parameters if not is_field(p)]
    rows = [
        (f"`{place(p)}`" if is_argument(p) else written(p), meaning(p))
        for p in sorted(own, key=lambda p: not is_argument(p))
    ]
    parts = [f"### {one.name}", one.purpose, f"```sh\n{usage(one)}\n```"]
    if rows:
        parts.append(table("argument or option | meaning", rows))
    if taken := fields_taken(one):
        parts.append(taken)
    if one.example:
        parts.append(f"For example:\n\n```sh\n{one.example}\n```")
    return "\n\n".join(parts)


def fields_taken(one: Command) -> str:
    """Return which fields of a run file a command takes as options."""
    taken = [f"`{p.opts[0]}`" for p in one.parameters if is_field(p)]
    return f"[Fields of the run file](run-file.md): {', '.join(taken)}." if taken else ""


def listed(names: list[str]) -> str:
    """Return names as an enumeration."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


EXITS = [
    ("0", "Success; a repeated request returns the same numbers at no cost."),
    ("1", "The program or the machine failed; try again."),
    ("2", "Wrong usage or bad input; nothing was written or spent."),
    ("3", "The budget does not allow the release; nothing was spent."),
    ("130", "Interrupted by Ctrl-C, SIGTERM or SIGHUP; the same command continues."),
]


def command_page(_: str = "") -> str:
    """Return the page of the command."""
    known = commands()
    panels = list(dict.fromkeys(one.panel for one in known))
    parts = [
        "# Command line",
        (
            "All commands with their arguments, options and an example, as `hexveil COMMAND "
            "--help` shows them. `python website/generated.py` generates this page."
        ),
        (
            "`hexveil --version` shows the version. An error is one sentence on stderr. With "
            '`--json` stdout contains JSON, and an error is an object on stderr, `{"error": ...}`, '
            f"with {listed([f'`{field.name}`' for field in fields(Failure)])}."
        ),
        table("exit code | when", EXITS),
    ]
    for panel in panels:
        inside = [one for one in known if one.panel == panel]
        parts += [f"## {panel}", *(command_text(one) for one in inside)]
    return "\n\n".join(parts) + "\n"


# The run file


def field_table(section: str) -> str:
    """Return the table of a section's fields."""
    rows = []
    for (where, name), info in FIELDS.items():
        if where == section:
            default = info.default
            # A mark by itself would be read as the end of the sentence.
            shown = default if re.search(r"\w", default or "") else f'"{default}"'
            text = f"{info.description} Default: {shown}." if default else info.description
            rows.append((f"`{name}`", f"`{option(section, name)}`", cell(text)))
    return table("field | option | meaning", rows)


def run_file_page(page: str) -> str:
    """Return the page of the run file with its tables made anew; what is between them stays."""
    for section in dict.fromkeys(where for where, _ in FIELDS):
        head = f"## [{section}]" if section else "## Top of the file"
        if f"{head}\n" not in page:
            page += f"\n{head}\n\n| field |\n"
        before, _, after = page.partition(f"{head}\n")
        between, _, rest = after.partition("|")
        rest = re.sub(r"\A(?:.*\n)(?:\|.*\n)*", "", rest)
        page = f"{before}{head}\n{between}{field_table(section)}\n{rest}"
    return page


# The manifest


def kind_of(node: dict[str, Any]) -> str:
    """Return what a value is, in a word or two."""
    if "const" in node:
        return f"`{node['const']}`"
    if "enum" in node:
        return " or ".join("null" if one is None else f"`{one}`" for one in node["enum"])
    if "oneOf" in node:
        return " or ".join(dict.fromkeys(kind_of(one) for one in node["oneOf"]))
    if node["type"] == "array":
        return f"list of {kind_of(node['items'])}"
    types = [node["type"]] if isinstance(node["type"], str) else node["type"]
    exact = (
        "decimal text" if node.get("pattern", "").startswith(("^-?[0-9]+", "^-?[0-9]{")) else "text"
    )
    words = {"string": exact, "integer": "integer", "null": "null"}
    return " or ".join(words.get(one, one) for one in types)


def properties(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Return a row for each property below a node: path, kind, whether always there, meaning."""
    for name, inner in node.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        always = "always" if name in node.get("required", ()) else "if applicable"
        yield f"`{here}`", cell(kind_of(inner)), always, cell(inner.get("description", ""))
        yield from below(inner, here)


def below(node: dict[str, Any], here: str) -> Iterator[tuple[str, str, str, str]]:
    """Return the rows of what is inside an object, a list, or one of several objects."""
    if "items" in node:
        yield from below(node["items"], f"{here}[]")
    for one in node.get("oneOf", ()):
        consts = [
            inner["const"] for inner in one.get("properties", {}).values() if "const" in inner
        ]
        name = f"{here.removesuffix('[]')}[{consts[0]}]" if consts else here
        yield from properties(one, name)
    yield from properties(node, here)


MEANINGS = {
    "kind": "Kind of the statistics.",
    "plan.statistics": "Published statistics.",
    "plan.stages[].sensitivity": "Most that any unit moves the numbers of the stage, together.",
    "plan.stages[].squared_mu": "Loss of the stage under normal noise, as a squared ratio.",
}
"""Meanings of fields that the schema does not describe."""
OF_MOMENTS = {"moments", "scores"}
"""Parts of a component that have the fields of one of means and variances."""
AS_MOMENTS = "Its fields are those of [means and variances](#means-and-variances)."
TITLES = {
    "moments": "Means and variances",
    "distributions": "Quantiles, shares and histograms",
    "presence": "Maps with private presence",
}


def resolved(node: Any) -> Any:  # noqa: ANN401  JSON
    """Return a schema with its parts in place of references to them."""
    if isinstance(node, list):
        return [resolved(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return resolved(manifest_schema()["$defs"][node["$ref"].rpartition("/")[2]])
    return {key: resolved(entry) for key, entry in node.items()}


def described(node: dict[str, Any], path: str = "") -> dict[str, Any]:
    """Return a schema in which fields without a description have that of `MEANINGS`."""
    made = dict(node)
    if "properties" in node:
        made["properties"] = {}
        for name, inner in node["properties"].items():
            here = f"{path}.{name}" if path else name
            known = {"description": MEANINGS[here]} if here in MEANINGS else {}
            made["properties"][name] = known | described(inner, here)
    if "items" in node:
        made["items"] = described(node["items"], f"{path}[]")
    if "anyOf" in node:
        made["oneOf"] = node["anyOf"]
    return made


def manifest_tables(
    whole: dict[str, Any],
    level: str,
    but: Collection[str] = (),
    known: Mapping[str, dict[str, Any]] = MappingProxyType({}),
) -> Iterator[str]:
    """Yield a heading and a table for each part of a manifest but some.

    Of the parts of a component of means and variances, which are `known`, one line is enough.
    """
    for name, node in whole["properties"].items():
        if name in but:
            continue
        rows = list(properties({"properties": {name: node}, "required": whole["required"]}))
        yield f"{level} {name}"
        if known.get(name) == node:
            yield f"{rows[0][3]} {AS_MOMENTS}".lstrip()
            continue
        yield rows[0][3] if len(rows) > 1 else ""
        yield table("path | type | present | meaning", rows[1:] or rows)


def manifest_page(_: str = "") -> str:
    """Return the page of the schema: what all releases state, then each kind of component."""
    common = described(
        resolved(component_schema("a name below", {"properties": {}, "required": []}))
    )
    parts = [
        "# The manifest",
        (
            "`manifest.json` is the machine-readable description of a release and its guarantee. "
            "It contains public metadata and results that were paid for: no true mean, no count of "
            "clamped readings, no file size and no time. `python website/generated.py` generates "
            "this page from the JSON Schema, [manifest.schema.json]"
            "(../../src/hexveil/publishing/manifest.schema.json), which is part of the package; "
            "`hexveil verify` checks a folder against it."
        ),
        (
            "Decimal text is a number in quotes, which keeps it exact. A path with `[]` refers to "
            "each entry of a list; with a name in the brackets, to entries of that kind."
        ),
        (
            "The top of the manifest states what holds of all value columns together. `components` "
            "has an entry for each value column, of one of the kinds below. In Python "
            '`release.statements["speed"]` has the entry of one column with what it shares.'
        ),
        *manifest_tables(resolved(manifest_schema()), "##", ["components"]),
        "## components",
        "Every component has:",
        *manifest_tables(common, "###"),
    ]
    for kind, title in TITLES.items():
        made = described(resolved(component_schema(kind)))
        known = (
            described(resolved(component_schema("moments")))["properties"]
            if kind != "moments"
            else {}
        )
        for name in OF_MOMENTS & made["properties"].keys():
            # Statements that a component of means and variances has, one level deeper.
            text = f"{made['properties'][name].get('description', '')} {AS_MOMENTS}".lstrip()
            made["properties"][name] = {"type": "object", "description": text}
        parts += [
            f"## {title}",
            f"A component whose `kind` is `{kind}` also has:",
            *manifest_tables(made, "###", common["properties"], known),
        ]
    return "\n\n".join(part for part in parts if part) + "\n"


# Options of a plan


def options_page(_: str = "") -> str:
    """Return the page of the options of `plan`, and of which go together."""
    parts = [
        "# Options of a plan",
        (
            "The options of `hv.plan`, which [the run file](run-file.md) has in `[plan]` and "
            "`[privacy]`, and which of them go together. `python website/generated.py` generates "
            "this page from the tables that the package checks a request with "
            "([options](../../src/hexveil/planning/plan_arguments.py), "
            "[rules](../../src/hexveil/planning/option_rules.toml)). What is refused costs "
            "nothing: it is refused before records are read."
        ),
        "## Options",
        table("option | default | meaning", [*option_rows()]),
        "## What does not go together",
        (
            "Every other combination works, with [private presence](../how-to/private-presence.md) "
            "and without, with one value column or several, with a δ or without. Options that "
            "begin with `--` are those of `hexveil plan`, `release` and `inspect`."
        ),
        table("option | goes | why", [*rule_rows()]),
        "## What was refused once, and works",
        (
            "Refused until version 0.2, because nobody had built it: target errors of quantiles, "
            "shares and histograms, and under private presence (of one value column, at the least "
            "ε of two figures whose predicted errors are within them); `--compare` with a δ, and "
            "with several value columns of quantiles, shares and histograms; `--curve` with "
            "several value columns, and under private presence."
        ),
    ]
    return "\n\n".join(parts) + "\n"


def option_rows() -> Iterator[tuple[str, str, str]]:
    """Yield a row for each option of a plan."""
    for one in fields(PlanArguments):
        home = section_of(one.name)
        meaning = FIELDS[home, one.name].description if home else "Warn where a map says nothing."
        yield f"`{one.name}`", f"`{one.default}`", cell(meaning)


def rule_rows() -> Iterator[tuple[str, str, str]]:
    """Yield a row for each rule."""
    for rule in RULES:
        options = ", ".join(f"`{word}`" for word in map(spoken, rule.words))
        yield options, cell(rule.partners), cell(rule.why)


PAGES: dict[str, Callable[[str], str]] = {
    "command.md": command_page,
    "run-file.md": run_file_page,
    "manifest.md": manifest_page,
    "options.md": options_page,
}


def stale() -> dict[str, str]:
    """Return the pages that are not what the code gives, with what it gives."""
    found = {}
    for name, make in PAGES.items():
        file = REFERENCE / name
        old = file.read_text(encoding="utf-8") if file.exists() else ""
        if (new := make(old)) != old:
            found[name] = new
    return found


if __name__ == "__main__":
    for name, text in stale().items():
        (REFERENCE / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"docs/reference/{name} is written anew\n")
