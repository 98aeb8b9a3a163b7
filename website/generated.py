"""Reference pages that the code writes: the command, the fields of a run, the manifest.

They are committed, so that they read on the code host; tests/test_site.py compares them with what
the code gives now. `python website/generated.py` writes them.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from hexveil.cli.app import PANELS, app
from hexveil.cli.endings import Failure
from hexveil.cli.options import FieldOption
from hexveil.config.fields import FIELDS, option
from hexveil.planning.plan_arguments import PlanArguments
from hexveil.planning.request import RULES, spoken
from hexveil.publishing.part_kinds import component_schema, manifest_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

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
        return [p for p in self.parsed.params if "--help" not in p.opts]


def commands() -> list[Command]:
    """Return every command and sub-command, in the order of the help."""
    return [
        one
        for panel, known in PANELS.items()
        for name in known
        for one in _commands_of(app, "hexveil", name, panel)
    ]


def _commands_of(group: Any, path: str, name: str, panel: str) -> Iterator[Command]:  # noqa: ANN401
    """Yield a command of a group, or those inside it."""
    one = group.get_command(click.Context(group), name)
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
    return isinstance(parameter, FieldOption)


def usage(one: Command) -> str:
    """Return the line of usage."""
    places = [place(p) for p in one.parameters if is_argument(p)]
    options = [] if all(is_argument(p) for p in one.parameters) else ["[OPTIONS]"]
    return " ".join([one.name, *places, *options])


def place(parameter: Any) -> str:  # noqa: ANN401  the same
    """Return how an argument stands in the line of usage."""
    name = re.sub(r"[\[\].]", "", parameter.metavar or parameter.opts[0]).upper()
    name += "..." if parameter.nargs == -1 else ""
    return name if parameter.required else f"[{name}]"


def written(parameter: Any) -> str:  # noqa: ANN401  the same
    """Return how an option is written, with what it takes."""
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    if parameter.is_flag:
        return names
    return f"{names[:-1]} {parameter.metavar or 'TEXT'}`"


def meaning(parameter: Any) -> str:  # noqa: ANN401  the same
    """Return what a parameter does, and what counts where it is left out."""
    text = re.sub(r"\s*\\?\[default: (.+)\]$", r" Default: \1.", cell(parameter.help or ""))
    default = parameter.to_info_dict().get("default")
    if isinstance(default, bool) or default in (None, (), []):
        return text + (" Needed." if parameter.required and not is_argument(parameter) else "")
    return f"{text} Default: {cell(str(default))}."


def command_text(one: Command) -> str:
    """Return the part of the page about one command."""
    rows = [row for row in own_rows(one) if row not in shared_rows()]
    lines = dict.fromkeys(filter(None, (usage(one), one.example)))
    parts = [f"### {one.name}", one.purpose, "```sh\n" + "\n".join(lines) + "\n```"]
    if rows:
        parts.append(table("argument or option | meaning", rows))
    if fields_of(one):
        left = [f"`{name}`" for name in shared_fields() if name not in fields_of(one)]
        but = f", but not {listed(left)}" if left else ""
        parts.append(f"Also takes the options of the run file{but}.")
    return "\n\n".join(parts)


def own_rows(one: Command) -> list[tuple[str, str]]:
    """Return a row for each argument and option that is no field of a run file."""
    own = [p for p in one.parameters if not is_field(p) and "--json" not in p.opts]
    return [
        (f"`{place(p).strip('[]')}`" if is_argument(p) else written(p), meaning(p))
        for p in sorted(own, key=lambda p: not is_argument(p))
    ]


@cache
def shared_rows() -> list[tuple[str, str]]:
    """Return the rows that at least three commands have, and none in other words."""
    often = Counter(row for one in commands() for row in own_rows(one))
    spelt = Counter(left for left, _ in often)
    return [row for row, number in often.items() if number > 2 and spelt[row[0]] == 1]


def fields_of(one: Command) -> list[str]:
    """Return the fields of a run file that a command takes as options."""
    return [p.opts[0] for p in one.parameters if is_field(p)]


def shared_fields() -> list[str]:
    """Return every field of a run file that some command takes as an option."""
    return list(dict.fromkeys(name for one in commands() for name in fields_of(one)))


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
            "All commands with their options and an example, as `hexveil COMMAND --help` shows "
            "them. `python website/generated.py` generates this page."
        ),
        (
            "`hexveil --version` shows the version. An error is one sentence on stderr. With "
            "`--json`, which all commands take, stdout contains JSON, and an error is an object on "
            f'stderr, `{{"error": ...}}`, with {listed([f"`{f.name}`" for f in fields(Failure)])}.'
        ),
        (
            "Options of [the run file](run-file.md), where a command takes them: "
            f"{', '.join(f'`{name}`' for name in shared_fields())}."
        ),
        table("exit code | when", EXITS),
        "Arguments and options of several commands:",
        table("argument or option | meaning", shared_rows()),
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
            typed = option(section, name)  # every other field is given by --set
            short = "" if typed.startswith("--set") else f", `{typed}`"
            rows.append((f"`{name}`{short}", cell(text)))
    return table("field | meaning", rows)


def run_file_page(page: str) -> str:
    """Return the page of the run file with its tables made again; what is between them stays."""
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


def properties(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Return a row for each property down to two names: path, "?" if it may be absent, meaning."""
    for name, inner in node.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        mark = "" if name in node.get("required", ()) else " ?"
        short = re.split(r"[.;] ", cell(inner.get("description", "")))[0]
        yield f"`{here}`{mark}", short.rstrip(".")
        if not path:
            yield from below(inner, here)


def below(node: dict[str, Any], here: str) -> Iterator[tuple[str, str]]:
    """Return the rows of what is inside an object, a list, or one of several objects."""
    if "items" in node:
        yield from below(node["items"], f"{here}[]")
    inside = [row for one in node.get("oneOf", ()) for row in properties(one, here)]
    yield from dict.fromkeys([*inside, *properties(node, here)])


MEANINGS = {
    "kind": "Kind of the statistics.",
    "plan.statistics": "Published statistics.",
}
"""Meanings of fields that the schema does not describe."""
OF_MOMENTS = {"moments", "scores"}
"""Parts of a component that have the fields of one of means and variances, one level deeper."""
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
        own = {key: part for key, part in node.items() if key == "description"}
        return resolved(manifest_schema()["$defs"][node["$ref"].rpartition("/")[2]]) | own
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


def manifest_table(whole: dict[str, Any], known: Mapping[str, Any] = MappingProxyType({})) -> str:
    """Return a table of the parts of a manifest with their fields; what is known is one line."""
    rows = []
    for name, node in whole["properties"].items():
        if name in known and known[name] is None:
            continue
        seen = name in OF_MOMENTS or (name in known and bare(known[name]) == bare(node))
        found = list(properties({"properties": {name: node}, "required": whole["required"]}))
        rows += [(found[0][0], f"{found[0][1]}; as above")] if seen else found
    return table("field | meaning", rows)


def bare(node: dict[str, Any]) -> list[str]:
    """Return the names of the fields of a part."""
    return [field for field, _ in below(node, "")]


def manifest_page(_: str = "") -> str:
    """Return the page of the schema: what all releases state, then each kind of component."""
    whole = resolved(manifest_schema())
    stated = whole["$defs"]["component"]
    stated["properties"]["kind"]["const"] = "a name below"
    common = described(resolved(stated))
    known: dict[str, Any] = {"components": None}
    parts = [
        "# The manifest",
        (
            "`manifest.json` describes a release and its guarantee for machines: public metadata "
            "and results that were paid for. `hexveil verify` checks a folder against the JSON "
            "Schema, [manifest.schema.json](../../src/hexveil/publishing/manifest.schema.json), "
            "which has every field, with types and longer descriptions. This page has the fields "
            "down to two names; `python website/generated.py` generates it from the schema."
        ),
        (
            'A field marked "?" may be absent; `[]` refers to each entry of a list. Exact numbers '
            "are text in quotes. The top states what holds of all value columns together; "
            "`components` has an entry for each. In Python "
            '`release.statements["speed"]` has the entry of one column.'
        ),
        manifest_table(whole, known),
        "## components",
        "Every component has:",
        manifest_table(common),
    ]
    known = whole["properties"] | dict.fromkeys(common["properties"])
    for kind, title in TITLES.items():
        made = described(resolved(component_schema(kind)))
        text = f"A component whose `kind` is `{kind}` also has:"
        parts += [f"## {title}", text, manifest_table(made, known)]
        known = made["properties"] | known
    return "\n\n".join(parts) + "\n"


# Options of a plan


def options_page(_: str = "") -> str:
    """Return the page of the options of `plan`, and of which go together."""
    parts = [
        "# Options of a plan",
        (
            "Which options of `hv.plan` go together; [the run file](run-file.md) describes each in "
            "`[plan]` and `[privacy]`. `python website/generated.py` generates "
            "this page from the tables that the package checks a request with "
            "([options](../../src/hexveil/planning/plan_arguments.py), "
            "[rules](../../src/hexveil/planning/option_rules.toml)), before records are read."
        ),
        "## Options",
        f"With their defaults where they have one: {', '.join(options_of_plans())}.",
        "## What does not go together",
        (
            "Every other combination works. Options that begin with `--` are those of "
            "`hexveil plan`, `release` and `inspect`."
        ),
        table("option | goes | why", [*rule_rows()]),
    ]
    return "\n\n".join(parts) + "\n"


def options_of_plans() -> Iterator[str]:
    """Yield each option of a plan, with its default."""
    for one in fields(PlanArguments):
        yield f"`{one.name}`" + ("" if one.default is None else f" (`{one.default}`)")


def rule_rows() -> Iterator[tuple[str, str, str]]:
    """Yield a row for each rule."""
    for rule in RULES:
        options = ", ".join(f"`{word}`" for word in map(spoken, rule.words))
        alone = " or ".join(" with ".join(map(spoken, subset)) for subset in rule.without)
        excluded = ", ".join(map(spoken, rule.beside))
        goes = f"only with {alone}" if alone else f"not with {excluded}"
        yield options, cell(goes), cell(rule.why)


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
        sys.stdout.write(f"docs/reference/{name} is written\n")
