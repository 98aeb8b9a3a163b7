"""`hexveil map`: questions with proposals, a run file, a release, the page; nothing is guessed."""

import io
import json
import sys
import tomllib
import webbrowser

import pytest

import hexveil as hv
from source_trees import DOCS

GIVEN = (
    "--bounds 0,65 --timezone Asia/Kolkata --set read.privacy_unit=user --epsilon 1 "
    "--set ledger.budget=2"
)


class Terminal(io.StringIO):
    """Answers of somebody at a terminal."""

    def isatty(self):
        """Tell that somebody is there."""
        return True


@pytest.fixture
def answer(monkeypatch, call):
    """Return what answers the questions of a command, and the pages it opened."""
    pages = []
    monkeypatch.setattr(webbrowser, "open", pages.append)

    def answered(words, *answers):
        monkeypatch.setattr(sys, "stdin", Terminal("".join(f"{text}\n" for text in answers)))
        return call(words), pages

    return answered


def test_five_answers_make_a_map(fleet, answer):
    """Proposals are taken by an empty line; the file that is written makes the same map."""
    said, pages = answer(
        "map buses.parquet", "0 to 65 km/h", "Asia/Kolkata", "", "", "2", "", "", "y"
    )
    assert said.code == 0, said.err
    assert "vehicle bus; value speed; time time; place lat and lon" in " ".join(said.err.split())
    assert "Presence, places and times are not" in " ".join(said.err.split())
    assert "Counting cells" not in said.out
    # The page of a first map shows the questions as they are.
    shown = " ".join((DOCS / "start" / "first-map.md").read_text("utf-8").split())
    asked = " ".join(said.err.split()).split(" Why ")
    assert [text for text in asked[1:] if text[:90] not in shown] == []
    fields = tomllib.loads((fleet / "buses.toml").read_text())
    assert fields["values"] == {"bounds": [0, 65], "value_unit": "km/h"}
    assert fields["cells"]["timezone"] == "Asia/Kolkata"
    assert fields["read"]["privacy_unit"] == "user"
    assert fields["plan"]["epsilon"] == 1
    assert fields["ledger"]["budget"] == 2
    assert fields["catalogue"]["temporal"] == ["2022-01-01", "2022-01-01"]
    assert "Records of Saturday 1 January 2022" in (fleet / "map" / "README.txt").read_text()
    assert pages == [(fleet / "map" / "report.html").resolve().as_uri()]
    assert hv.verify(fleet / "map")["dataset"]["name"] == "buses"


@pytest.mark.slow
def test_an_answer_that_cannot_be_is_asked_again(fleet, answer):
    """What is wrong is said, and nothing is spent where the release is not confirmed."""
    answers = ["fast", "65,0", "0,65", "Kolkata", "Asia/Kolkata", "bus", "user", "-1", "1", "2"]
    said, pages = answer("map buses.parquet", *answers, "", "none", "n")
    assert said.code == 0
    text = " ".join(said.err.split())
    assert "nothing was spent" in text
    assert "bounds are two numbers and a unit" in text
    assert "the answer must be one of user, user-day, user-week" in text
    assert "costs epsilon 1 (factor 2.72) of a budget of 2" in text
    assert pages == []
    assert sorted(path.name for path in fleet.iterdir()) == ["buses.parquet", "buses.toml"]
    # The run file would be written over: this is said before any question.
    said, _ = answer("map buses.parquet")
    assert "'buses.toml' exists already" in said.err
    (fleet / "map").mkdir()
    assert "Why" not in said.err + answer("map buses.parquet --dataset other")[0].err


@pytest.mark.slow
def test_yes_guesses_nothing(fleet, refuse, okay):
    """Each open question is named by its option; with all of them nothing is asked."""
    said = refuse("map buses.parquet --yes --epsilon 1")
    assert said.err == (
        "hexveil: --yes guesses nothing: give --bounds, --timezone, --set read.privacy_unit, --set "
        "ledger.budget, too.\n"
    )
    assert "map asks on a terminal" in refuse("map buses.parquet").err
    said = refuse(f"map buses.parquet --yes {GIVEN} --epsilon 3").err
    assert "the budget 2 is below the privacy cost of this map, epsilon 3" in said
    assert [path.name for path in fleet.iterdir()] == ["buses.parquet"]
    made = json.loads(okay(f"map buses.parquet --yes {GIVEN} --json").out)
    assert made["ledger"]["budget"] == "2"
    # The run file has no open question, and its ledger has the numbers.
    again = okay("map buses.toml --yes --out again --set catalogue.temporal=2022-01-01,2022-01-02")
    assert "at no cost" in " ".join(again.out.split())
    days = "Records of Saturday 1 January to Sunday 2 January 2022"
    said = [(fleet / name / "README.txt").read_text() for name in ("map", "again")]
    assert [days in text for text in said] == [False, True]
    once, twice = (hv.load(fleet / name).table["mean_noisy"] for name in ("map", "again"))
    assert once.equals(twice)


def test_columns_that_no_name_tells_are_asked_for(fleet, refuse):
    """The option that names them is said; private presence and several columns are refused."""
    (fleet / "odd.csv").write_text("a,b,lat,lon,time\n1,2,21.1,72.8,2024-01-01T00:00:00Z\n")
    said = refuse("map odd.csv --yes")
    assert "like the vehicle and the value: name it, with --user COLUMN, --value COLUMN" in said.err
    row = "7,2,21.1,72.8,2024-01-01T00:00:00Z\n"
    (fleet / "one.csv").write_text(f"bus,speed,lat,lon,time\n{row}{row}")
    assert "vehicle (all rows have the same id in bus): name it" in refuse("map one.csv").err
    (fleet / "scan.csv").write_bytes(b"%PDF-1.7\nxref\n")
    assert "a single column, so this is no table of records" in refuse("map scan.csv").err
    assert "hexveil inspect SOURCE --init" in refuse("map buses.parquet --protect presence").err
    assert "takes one value column" in refuse("map buses.parquet --value speed --value lat").err
    assert "--json requires --yes" in refuse("map buses.parquet --json").err


@pytest.mark.parametrize(
    ("last_day", "named"), [("07", True), ("25", False)], ids=["day or month", "day"]
)
def test_times_that_fit_two_formats_are_asked_for(fleet, refuse, last_day, named):
    """Later times decide; where none does, the format is an open question."""
    days = ["05"] * 1200 + [last_day]
    lines = "".join(f"{i % 3},20,21.1,72.8,{day}/10/2026 08:00:00\n" for i, day in enumerate(days))
    (fleet / "days.csv").write_text("bus,speed,lat,lon,time\n" + lines)
    asked = f"map days.csv --yes {GIVEN}"
    said = refuse(asked).err
    assert ("give --set format.time_format, too" in said) == named, said
    assert "no record has a usable time" not in said


COMMA = ("bus;speed;lat;lon;time", "{bus};{speed};21,1{bus};72,8{bus};2026-10-05T08:00:00Z")
POINT = ("bus,speed,lat,lon,time", "{bus},{speed},21.1{bus},72.8{bus},2026-10-05T08:00:00Z")


@pytest.mark.parametrize(
    ("lines", "speed", "mark"),
    [(COMMA, "20,5", ","), (POINT, '"1,5"', None), (COMMA, "20.5", ",")],
    ids=["commas", "points", "both"],
)
def test_a_decimal_comma_is_recognised_before_the_first_question(fleet, answer, lines, speed, mark):
    """The draft and the answers state it by latitudes and longitudes, whatever values are like."""
    head, row = lines
    rows = [row.format(bus=bus, speed=speed) for bus in range(12)]
    if mark == ",":
        # One place with a point is enough: refused as the source, before the first question.
        mixed = [head, *rows, row.format(bus=1, speed=speed).replace("72,8", "72.8")]
        (fleet / "feed.csv").write_text("\n".join(mixed))
        for command in ("map", "inspect --init"):
            refused = answer(f"{command} feed.csv")[0].err
            assert refused.startswith("hexveil: source: some of the first places in lat and lon")
    (fleet / "feed.csv").write_text("\n".join([head, *rows]))
    draft, _ = answer("inspect feed.csv --init")
    assert tomllib.loads(draft.out).get("format", {}).get("decimal") == mark
    said, _ = answer("map feed.csv")
    before = " ".join(said.err.partition("Why")[0].split())
    assert before.startswith("Recognised")
    assert ("numbers with a decimal comma" in before) == (mark is not None)


@pytest.mark.parametrize(
    ("header", "bounds"),
    [
        ("Fahrzeug;Zeitpunkt;Breitengrad;Längengrad;Geschwindigkeit", " [0,100 km/h]"),
        ("Véhicule;Horodatage;Latitude;Longitude;Vitesse (m/s)", " [0,30 m/s]"),
        ("matrícula;hora;latitud;longitud;velocidad_kmh", " [0,100 km/h]"),
        ("pojazd;czas;szerokość geograficzna;długość geograficzna;prędkość", " [0,100 km/h]"),
        ("वाहन;समय;अक्षांश;देशांतर;गति", " [0,100 km/h]"),
        ("voertuig;tijdstip;breedtegraad;lengtegraad;snelheid_mph", " [0,60 mph]"),
        ("targa;orario;latitudine;longitudine;velocità_knots", ""),
    ],
)
def test_headers_of_other_languages_are_known(header, bounds, fleet, answer):
    """A header is told from a record; columns have their roles, and usual bounds are proposed."""
    rows = [f"x{bus};2026-10-05T08:00:00Z;21,5;72,8;4711" for bus in range(3)]
    (fleet / "feed.csv").write_text("\n".join([header, *rows]), encoding="utf-8")
    said = " ".join(answer("map feed.csv")[0].err.split())
    user, time, lat, lon, value = header.split(";")
    recognised = f"vehicle {user}; value {value}; time {time}; place {lat} and {lon}; numbers with"
    assert said.startswith(f"Recognised {recognised} a decimal comma.")
    assert f"Smallest and largest value, with the unit of measure{bounds}:" in said
