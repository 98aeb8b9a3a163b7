"""Choices of one window of the studio so far, from a file to a release.

A step takes the form of its page and names the next; pages are made of names, types, counts that
are public, and plans. What a map costs and does is what the commands do: the steps call them.
"""

import shlex
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

from hexveil.base.errors import InputError
from hexveil.cli import formatting, guided, questions
from hexveil.cli.commands.release_command import Preview, destination, end_rows
from hexveil.cli.formatting import Row
from hexveil.cli.plan_text import map_rows
from hexveil.cli.planned_release import PlannedRelease, plan_release, write
from hexveil.cli.studio.views import (
    LISTED,
    free_stem,
    grades_of,
    picture,
    record_files,
    statement,
    texts_of,
)
from hexveil.config import Run, arguments, load
from hexveil.config.column_guessing import nameable_columns
from hexveil.config.run_file import Key
from hexveil.publishing.dossier import dossier
from hexveil.records.sources.schema_preview import SourceSchema
from hexveil.report.promise_wording import Protect, promise

Form = dict[str, str]

STEPS = {
    "file": "Records",
    "questions": "Questions",
    "maps": "Map",
    "confirm": "Confirm",
    "done": "Published",
}
"""Pages in their order, with their names."""
ROLES = {
    "user": "Vehicle",
    "value": "Value",
    "time": "Time",
    "lat": "Latitude",
    "lon": "Longitude",
    "location": "Latitude and longitude in one column",
}
UNITS = {
    "user": "all readings of a vehicle together",
    "user-week": "the readings of a vehicle in one week",
    "user-day": "the readings of a vehicle on one day",
}
SLIDERS = {
    ("plan", "epsilon"): [Fraction(number, 10) for number in range(1, 51)],
    ("ledger", "budget"): [Fraction(number, 2) for number in range(1, 101)],
}
"""Values that a slider has, at even steps."""
CHOICES = ("stated", "look", "drafted", "run", "offers", "words", "planned", "preview", "published")
"""What a window knows, in the order in which it is chosen."""
NEEDED = {"questions": "drafted", "maps": "offers", "confirm": "preview", "done": "published"}
"""The choice that the page of each step is about."""
_WORK = threading.Lock()
"""One window reads, plans or releases at a time: each may take all memory it is allowed."""


class Window:
    """The choices of one window; whoever uses it holds its lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = threading.Lock()
        self.files = ("page", "dossier.md", "run-file.toml")
        """Names of what can be had of the release."""
        self._typed: Form = {}
        self._trusts_header = False
        self._choices: dict[str, Any] = {}

    def _choose(self, **choices: Any) -> None:  # noqa: ANN401  of any step
        """Note choices; those of later steps are forgotten."""
        first = min(CHOICES.index(name) for name in choices)
        earlier = {name: item for name, item in self._choices.items() if name in CHOICES[:first]}
        self._choices = earlier | choices

    def _chosen(self, name: str) -> Any:  # noqa: ANN401  of any step
        """Return an earlier choice; refuse a form that came without it."""
        if name not in self._choices:
            raise InputError("begin with the records.")
        return self._choices[name]

    def is_open(self, step: str) -> bool:
        """Return whether a page can be shown: the choices for it have been made."""
        return step == "file" or NEEDED[step] in self._choices

    def take(self, step: str, form: Form) -> str:
        """Take the form of a step, and return the next.

        Raises
        ------
        HexveilError
            With what to do instead; nothing was chosen or spent then.
        """
        with _WORK:
            return str(getattr(self, f"_take_{step}")(form))

    def view(self, step: str) -> dict[str, Any]:
        """Return the content of the page of a step."""
        values: dict[str, Any] = getattr(self, f"_view_{step}")()
        return values

    # ---- records ----

    def _view_file(self) -> dict[str, Any]:
        names = list(record_files(self.folder))
        return {"files": names[:LISTED], "more": len(names) > LISTED}

    def _take_file(self, form: Form) -> str:
        # By its name in the list: no other path reaches the file system.
        name = form.get("file", "")
        if name not in record_files(self.folder):
            raise InputError("choose one of the files that are listed.")
        fields: dict[Key, object] = {}
        self._trusts_header = form.get("header") == "yes"
        if form.get("protect") == "presence":
            # Counts of a reading are for its holder's terminal, and not for a studio's.
            fields = {("privacy", "protect"): "presence", ("privacy", "quiet_records"): True}
        self._begin(load(name, fields))
        return "questions"

    def _begin(self, stated: Run) -> None:
        look = guided.look_at_columns(stated, trust=self._trusts_header)
        self._choose(stated=stated, look=look, drafted=guided.drafted(stated, look))
        self._typed = {}

    # ---- columns and questions ----

    def _view_questions(self) -> dict[str, Any]:
        stated, drafted = self._chosen("stated"), self._chosen("drafted")
        columns = [(name, kind.name) for name, kind in nameable_columns(self._chosen("look"))]
        columns_stated = stated.columns.explicit_fields()
        return {
            "recognised": guided.recognised(drafted),
            "missing": _missing(drafted, self._chosen("look")),
            "columns": columns,
            "roles": [(role, text, columns_stated.get(role, "")) for role, text in ROLES.items()],
            "questions": [self._field(question) for question in self._questions()],
            "protects_presence": arguments.is_presence_private(stated),
            "units": UNITS,
        }

    def _questions(self) -> list[questions.Question]:
        chosen = (self._chosen(name) for name in ("stated", "drafted", "look"))
        return questions.open_questions(*chosen)

    def _field(self, question: questions.Question) -> dict[str, Any]:
        """Return a question as its page asks it."""
        name = ".".join(question.key)
        drafted = self._chosen("drafted")
        proposal = question.proposal(drafted) or ""
        field: dict[str, Any] = {
            "name": name,
            "text": question.text,
            "reason": question.reason,
            "value": self._typed.get(name, proposal),
        }
        if name == "values.bounds":
            low_high, unit = questions.range_of(proposal) if proposal else (",", "")
            ends = dict(zip(("low", "high"), low_high.split(","), strict=True)) | {
                "unit": unit or arguments.value_unit_of(drafted)
            }
            field |= {end: self._typed.get(end, text) for end, text in ends.items()}
        if question.key in SLIDERS:
            steps = SLIDERS[question.key]
            field["slider"] = {
                "low": f"{float(steps[0]):g}",
                "high": f"{float(steps[-1]):g}",
                "step": f"{float(steps[1] - steps[0]):g}",
                "texts": [
                    f"epsilon {float(loss):g}: a factor of at most {formatting.factor(float(loss))}"
                    for loss in steps
                ],
            }
        return field

    def _take_questions(self, form: Form) -> str:
        if "columns" in form:
            return self._take_columns(form)
        run, refused = self._chosen("drafted"), []
        self._typed = form
        self._choose(drafted=run)
        guided.check_columns(run, self._chosen("look"))
        for question in self._questions():
            answer = form.get(".".join(question.key), "")
            if question.key == ("values", "bounds"):
                low, high, unit = (form.get(name, "").strip() for name in ("low", "high", "unit"))
                answer = f"{low},{high} {unit}"
            try:
                run = questions.answered(run, question, answer)
            except InputError as error:
                refused.append(f"{question.text}: {error}")
        if refused:
            raise InputError(" ".join(refused))
        stem = free_stem(str(run.ledger.dataset))
        run = run.with_fields("release", out=f"{stem}-map")
        destination(run)
        if arguments.has_places(run):
            self._choose(run=run, offers=guided.offers_of(run))
            return "maps"
        self._choose(run=run)
        return self._plan(run, "")

    def _take_columns(self, form: Form) -> str:
        """Begin again with the columns that were named."""
        names = {name for name, _ in nameable_columns(self._chosen("look"))}
        columns = {role: form[role] for role in ROLES if form.get(role) in names}
        self._begin(self._chosen("stated").with_section("columns", columns))
        return "questions"

    # ---- grids ----

    def _view_maps(self) -> dict[str, Any]:
        run = self._chosen("run")
        offers, unit = self._chosen("offers"), arguments.value_unit_of(run)
        ends, legend = grades_of(offers, unit)
        return {
            "maps": [
                {
                    "words": offer.words,
                    "chosen": offer.is_balanced,
                    "picture": picture(offer, ends, unit),
                }
                for offer in offers
            ],
            "legend": legend,
            "questions": [self._field(question) for question in self._period(*offers)],
            "protects_presence": arguments.is_presence_private(run),
        }

    def _take_maps(self, form: Form) -> str:
        offers = dict(enumerate(self._chosen("offers")))
        offer = next((item for k, item in offers.items() if str(k) == form.get("map")), None)
        if offer is None:
            raise InputError("choose one of the maps.")
        run, self._typed = offer.applied_to(self._chosen("run")), self._typed | form
        # Asked once for all maps: slots of the chosen one may name the days themselves.
        for question in self._period(offer):
            run = questions.answered(run, question, form.get(".".join(question.key), ""))
        return self._plan(run, offer.words)

    def _period(self, *offers: guided.Offer) -> list[questions.Question]:
        """Return the question for which days a map is, if one of these does not name them."""
        run = self._chosen("run")
        asked = (questions.open_period(offer.applied_to(run), offer.days) for offer in offers)
        return next(filter(None, asked), [])

    def _plan(self, run: Run, words: str) -> str:
        self._choose(words=words)
        planned = plan_release(run)
        preview = self._described(planned, Preview.of(planned, destination(run)[1]))
        self._choose(planned=planned, preview=preview)
        return "confirm"

    # ---- privacy cost, release ----

    def _described(self, planned: PlannedRelease, preview: Preview) -> dict[str, Any]:
        """Return promise, map and booking to be confirmed, and details of the plan."""
        rows = [
            *preview.planned.price_rows(),
            *([] if planned.plan.is_declared else map_rows(planned.plan)),
        ]
        unit, delta = planned.facts.privacy_unit, planned.plan.delta
        protect: Protect = "presence" if planned.plan.is_declared else "values"
        brief: list[Row] = [
            ("Promise", promise(unit, planned.plan.epsilon, protect=protect, delta=delta)),
            ("Map", self._chosen("words")),
            ("Ledger", preview.text),
        ]
        return {
            "brief": texts_of(brief),
            "rows": texts_of(rows),
            "sentence": guided.price_words(planned.run),
            "fits": preview.fits,
        }

    def _view_confirm(self) -> dict[str, Any]:
        return {**self._chosen("preview"), "account": statement(self._chosen("run"))}

    def _take_confirm(self, form: Form) -> str:
        # A form that is sent twice finds the release of the first.
        if "published" in self._choices:
            return "done"
        if form.get("confirmed") != "yes":
            raise InputError("nothing was spent: tick the box to confirm.")
        planned = self._chosen("planned")
        if not self._chosen("preview")["fits"]:
            raise InputError("nothing was spent: the budget does not allow this map.")
        run = planned.run
        folder, account = destination(run)
        file = Path(f"{str(run.release.out).removesuffix('-map')}.toml")
        if not file.exists():
            guided.saved(run, file)
        book = planned.open_ledger(account)
        used = planned if book is None else planned.as_booked(book)
        published, book = used.publish(account, book)
        written = write(run, published, folder)
        rows, names = end_rows(used, published, written, book), [path.name for path in written]
        done = {"rows": texts_of(rows), "folder": folder, "file": file, "names": names}
        done["stated"] = questions.states_days(run)
        self._choose(published=done)
        del self._choices["planned"]  # with its sums
        return "done"

    def _view_done(self) -> dict[str, Any]:
        published = self._chosen("published")
        folder, file = shlex.quote(str(self.folder)), published["file"]
        daily = f"hexveil publish {file} --date $(date -d yesterday +%F) --out maps"
        return {
            "rows": published["rows"],
            "file": str(file),
            "folder": str(published["folder"]),
            "names": published["names"],
            "daily": daily,
            "dated": self._chosen("run").select.dates is not None,
            "stated": published["stated"],
            "cron": f"30 6 * * *  cd {folder} && {daily}".replace("%", "\\%"),
            "account": statement(self._chosen("run")),
        }

    def file(self, kind: str, path: list[str]) -> tuple[str, bytes]:
        """Return the type and the bytes of a file of the release."""
        published = self._choices.get("published")
        if published is not None and kind == "dossier.md":
            return "text/plain", dossier(published["folder"]).to_markdown().encode()
        if published is not None and kind == "run-file.toml":
            return "text/plain", published["file"].read_bytes()
        if published is None or path != ["report.html"]:
            raise InputError("there is no such file here.")
        return "text/html", (published["folder"] / path[0]).read_bytes()


def _missing(drafted: Run, look: SourceSchema) -> str:
    """Return which columns were not recognised, in words; nothing if all were."""
    try:
        guided.check_columns(drafted, look)
    except InputError as error:
        return str(error).partition(":")[0]
    return ""
