"""`hexveil studio` by its requests: who is let in, what is shown, and that one release is made."""

import html
import http.client
import json
import re
import socketserver
import tomllib
import webbrowser
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock
from urllib.parse import urlencode

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from cli.serving import serving

ANSWERS = {
    "low": "0", "high": "65", "unit": "km/h", "cells.timezone": "Asia/Kolkata",
    "read.privacy_unit": "user", "plan.epsilon": "1", "ledger.budget": "2",
}  # fmt: skip
DAYS = {"catalogue.temporal": "2022-01-01, 2022-01-01"}
HOSTILE = "<script>alert('1')</script>"


class Window:
    """A window of a browser, by its requests."""

    def __init__(self, address):
        self.address, self.host, self.token = address, *address.split("/")[2:4]
        self.headers = {"Host": self.host, "Origin": f"http://{self.host}"}
        self.place = self.follow(f"/{self.token}/")

    def ask(self, path, form=None, **headers):
        """Return status, headers and text of an answer."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        body = None if form is None else urlencode(form)
        method, sent = ("GET" if form is None else "POST"), self.headers | headers
        connection.putrequest(method, path, skip_host=True)
        for name, value in sent.items():
            if value is not None:
                connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(None if body is None else body.encode())
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, answer.headers, text

    def follow(self, path, form=None):
        """Return where an answer leads."""
        status, headers, text = self.ask(path, form)
        assert status == 303, words_of(text)
        return headers["Location"]

    def step(self, **form):
        """Send the form of the page, and go where that leads."""
        self.place = self.follow(self.place, form)
        return self.show()

    def show(self, name=None):
        """Return the text of the page, or of another of this window."""
        place = self.place if name is None else self.place.rpartition("/")[0] + "/" + name
        status, _, text = self.ask(place)
        assert status == 200, words_of(text)
        return text

    def refused(self, **form):
        """Return what the page says to a form that is refused."""
        status, _, text = self.ask(self.place, form)
        assert status == 400, words_of(text)
        return html.unescape(re.search(r'role="alert">(.*?)</p>', text, re.DOTALL)[1])


def words_of(text):
    """Return the text of a page without its tags."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


@pytest.fixture
def server(fleet, monkeypatch, capfd):
    """Serve the folder of a fleet; nothing is printed meanwhile."""
    with serving(fleet, monkeypatch, capfd) as served:
        yield served
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def window(server):
    """Open a window."""
    return Window(server)


def to_maps(window, **changes):
    """Go from the records to the proposed maps."""
    window.step(file="buses.parquet", protect="values")
    return window.step(**ANSWERS | changes)


def test_only_the_address_is_open(window):
    """Token, host and origin are checked at each request; pages run one script and load nothing."""
    place, host = window.place, window.host
    wrong = place.replace(window.token, window.token[::-1])
    foreign = {"Host": f"evil.example:{host.partition(':')[2]}"}
    assert window.ask(wrong)[0] == window.ask("/")[0] == window.ask("//x")[0] == 403
    assert window.ask(place, **foreign)[0] == window.ask(place, Host=None)[0] == 403
    assert window.ask(place, Host="localhost" + host[9:])[0] == 403
    form = {"file": "buses.parquet", "protect": "values"}
    for origin in (None, "null", "http://evil.example", f"https://{host}"):
        assert window.ask(place, form, Origin=origin)[0] == 403
    assert window.ask(place, {"file": "x" * 70_000})[0] == 413
    status, headers, text = window.ask(place)
    assert status == 200
    assert (
        "default-src 'none'; style-src 'self'; script-src 'self'"
        in headers["Content-Security-Policy"]
    )
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "same-origin"
    assert not re.search(r"<style|style=|<script(?! src)| on\w+=", text)
    assert "window.server" not in text


def test_no_path_leaves_the_folder(window, fleet, tmp_path_factory):
    """Files are chosen from a list: neither a link nor a path reaches another."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.csv").write_text("bus,speed\n4711,3\n")
    (fleet / "link.csv").symlink_to(outside / "secret.csv")
    (fleet / "linked").symlink_to(outside)
    (fleet / "day").mkdir()
    (fleet / "day" / "own.csv").write_text("bus,speed\n4711,3\n")
    page = window.show()
    assert "day/own.csv" in page
    assert "secret" not in page
    assert "link" not in words_of(page)
    for name in ("link.csv", "linked/secret.csv", str(outside / "secret.csv"), "../x.csv", ""):
        assert "listed" in window.refused(file=name, protect="values")
    for path in ("page/../../buses.parquet", "page/%2e%2e%2fbuses.parquet", "page/report.html"):
        status, _, text = window.ask(f"{window.place.rpartition('/')[0]}/{path}")
        assert (status, "PAR1" in text) == (400, False)
    assert window.ask(f"/{window.token}/..%2f..%2fserver.py")[0] == 303


def test_hostile_names_are_text(window, fleet):
    """Names of files and columns are shown as they are; types with them, and never a value."""
    rows = {HOSTILE: ["4711"] * 3, 'a" onload="x': [47.11] * 3, "{{ 7*7 }}": ["secret"] * 3}
    pq.write_table(pa.table(rows), fleet / f"{HOSTILE[:8]}.parquet")
    page = window.show()
    assert html.escape(HOSTILE[:8]) in page
    assert HOSTILE[:8] not in page
    page = window.step(file=f"{HOSTILE[:8]}.parquet", protect="values")
    assert HOSTILE not in page
    assert 'a" onload' not in page
    text = words_of(page)
    assert f"{HOSTILE} text" in text
    assert "{{ 7*7 }} text" in text
    assert not re.search("4711|47.11|secret", page)
    assert "no column is called like" in window.refused(**ANSWERS)
    page = window.step(columns="yes", user=HOSTILE, lat="no such")
    assert f"Vehicle {HOSTILE} Value" in words_of(page)


def test_answers_are_checked(window):
    """What is wrong is said at each question, and what was typed stays."""
    page = window.step(file="buses.parquet", protect="values")
    assert "factor of at most 2.72" in html.unescape(page)
    assert {"100", "km/h"} <= set(re.findall(r'value="([^"]*)"', page))
    wrong = {"cells.timezone": "Kolkata", "high": "-1", "read.privacy_unit": "bus"}
    said = window.refused(**ANSWERS | wrong)
    assert "Smallest and largest value" in said
    assert "Time zone of the map" in said
    assert "one of user, user-day, user-week" in said
    assert 'value="Kolkata"' in window.show()
    # Pages of later steps are not there yet.
    for step in ("maps", "confirm", "done"):
        top = window.place.rpartition("/")[0]
        assert window.follow(f"{top}/{step}") == f"{top}/file"


@pytest.mark.slow
def test_a_map_is_made_once(window, fleet, okay):
    """Maps are shown before anything is spent; two confirmations are one release."""
    page = to_maps(window)
    drawings = re.findall(r"<svg class.*?</svg>", page, re.DOTALL)
    said = r"<span>(\d+) hexagons, .*? around \w+, .*? (\d+) averages, typically ([\d.]+) km/h off"
    offers = re.findall(said, page)
    # The days are asked for as `hexveil map` does, with the same proposal.
    assert 'name="catalogue.temporal" value="2022-01-01, 2022-01-01"' in page
    assert "date" in window.refused(map="0", **{"catalogue.temporal": "tomorrow"})
    page = words_of(window.step(map="0", **DAYS))
    assert "would book 1 for the most exposed unit, in a new ledger with a budget of 2" in page
    assert "tick the box" in window.refused()
    assert sorted(path.name for path in fleet.iterdir()) == ["buses.parquet"]
    with ThreadPoolExecutor() as pool:
        sent = [pool.submit(window.follow, window.place, {"confirmed": "yes"}) for _ in range(3)]
        (window.place,) = {answer.result() for answer in sent}
    assert window.place.endswith("done")
    page = words_of(window.show())
    assert "hexveil publish buses.toml --date" in page
    assert "names no days" not in page
    assert "1 was booked before any noise was drawn" in page
    assert hv.verify(fleet / "buses-map")["dataset"]["name"] == "buses"
    grids = json.loads(okay("inspect buses.toml --json").out)["capacity"]
    errors = {(grid["hexagons"], grid["cells"]): grid["predicted_error"] for grid in grids}
    for (hexagons, cells, error), drawing in zip(offers, drawings, strict=True):
        assert drawing.count("<path") == int(hexagons)
        texts = {float(text) for text in re.findall(r"± ([\d.]+) km/h", drawing)}
        assert min(texts) <= float(error) <= max(texts)
        assert float(error) == pytest.approx(errors[int(hexagons), int(cells)], rel=0.05)
    run = tomllib.loads((fleet / "buses.toml").read_text())
    assert run["values"]["bounds"] == [0, 65]
    assert run["catalogue"]["temporal"] == ["2022-01-01", "2022-01-01"]
    assert hv.Ledger(fleet / "ledger.sqlite", dataset="buses").spend().window == 1
    _, headers, report = window.ask(window.place.replace("done", "page/report.html"))
    assert report == (fleet / "buses-map" / "report.html").read_text()
    assert headers["Content-Security-Policy"] == "sandbox allow-scripts allow-downloads"
    assert "privacy unit" in window.show("dossier.md")
    assert window.show("run-file.toml") == (fleet / "buses.toml").read_text()
    # The same answers in another window are the same request.
    other = Window(window.address)
    assert "ledger.budget" not in to_maps(other)
    other.step(map="0", **DAYS)
    assert "the same numbers again, at no cost" in words_of(other.step(confirmed="yes"))
    assert (fleet / "buses-2-map" / "cells.csv").read_text() == (
        fleet / "buses-map" / "cells.csv"
    ).read_text()


@pytest.mark.slow
def test_no_page_shows_an_id_or_a_value(window, fleet):
    """Records with ids and values that stand out: no page, and no file but the release."""
    table = pq.read_table(fleet / "buses.parquet").to_pylist()
    for row in table:
        row |= {"bus": f"canary-{row['bus']}", "speed": row["speed"] + 0.40625}
    pq.write_table(pa.Table.from_pylist(table), fleet / "buses.parquet")
    pages = [window.show(), to_maps(window), window.step(map="0", **DAYS)]
    pages.append(window.step(confirmed="yes"))
    pages += [window.show("dossier.md"), window.show("run-file.toml")]
    assert window.place.endswith("done")
    assert not [page for page in pages if "canary" in page or ".40625" in page]


@pytest.mark.slow
def test_private_presence_follows_from_declarations(window, fleet):
    """Area, fleet and days are declared; maps are alike everywhere, and no record is read."""
    page = window.step(file="buses.parquet", protect="presence")
    assert "limits of a city" in page
    area = {"cells.area": "72.7, 21.0, 73.2, 21.6", "privacy.fleet": "2000"}
    days = {"select.dates": "2022-01-01, 2022-01-01"}
    assert "four numbers" in window.refused(**ANSWERS | area | days | {"cells.area": "a.geojson"})
    # Its records are gone: only a release needs them.
    (fleet / "buses.parquet").rename(fleet / "away")
    page = window.step(**ANSWERS | area | days)
    assert "no record" not in page
    for drawing in re.findall(r"<svg class.*?</svg>", page, re.DOTALL):
        assert len(set(re.findall("<title>(.*?)</title>", drawing))) == 1
    coarsest = str(page.count("<svg class") - 1)
    assert "for any unit, present or not" in words_of(window.step(map=coarsest))
    (fleet / "away").rename(fleet / "buses.parquet")
    assert "remove the line dates" in words_of(window.step(confirmed="yes"))
    assert hv.verify(fleet / "buses-map")["guarantee"]["privacy_unit"] == "user"


def test_texts_of_unexpected_errors_are_hidden(window, monkeypatch):
    """An error of a library could hold a value: its type alone is named."""
    monkeypatch.setattr(duckdb, "connect", Mock(side_effect=ValueError("4711")))
    status, _, text = window.ask(window.place, {"file": "buses.parquet", "protect": "values"})
    assert (status, "ValueError" in text, "4711" in text) == (500, True, False)


def test_the_command_serves_until_it_is_interrupted(okay, refuse, fleet, monkeypatch):
    """The address is printed, and opened by a private file: no argument of a browser shows it."""
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(read(url)))
    monkeypatch.setattr(
        socketserver.BaseServer, "serve_forever", Mock(side_effect=KeyboardInterrupt)
    )
    said = okay("studio")
    (page,) = opened
    (address,) = re.findall(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", said.out)
    assert address in page
    assert "there is no folder elsewhere" in refuse("studio elsewhere --no-browser").err


def read(url):
    """Return the text of the page that a browser is to open, which is nobody else's."""
    file = Path(url.removeprefix("file://"))
    assert file.parent.stat().st_mode & 0o077 == 0
    return file.read_text()


def test_a_header_in_another_language_is_trusted_if_somebody_says_so(window, fleet):
    """Columns are then listed and chosen by their names, and numbers have a decimal comma."""
    lines = ["Ajoneuvo;Nopeus;Leveys;Pituus;Hetkellä", "b7;20,5;21,17;72,83;2026-10-05T08:00:00Z"]
    (fleet / "matkat.csv").write_text("\n".join(lines), encoding="utf-8")
    chosen = {"file": "matkat.csv", "protect": "values"}
    assert "may be a record" in window.refused(**chosen)
    assert "Ajoneuvo" in window.step(**chosen, header="yes")
    names = {"user": "Ajoneuvo", "value": "Nopeus", "time": "Hetkellä"}
    page = window.step(columns="yes", **names, lat="Leveys", lon="Pituus")
    assert "Numbers with a decimal comma" in words_of(page)
