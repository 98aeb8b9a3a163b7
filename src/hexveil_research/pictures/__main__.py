"""Make the pictures: `python -m hexveil_research.pictures FOLDER [NAME ...]`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from hexveil.base.errors import HexveilError
from hexveil_research import plot_style
from hexveil_research.pictures import car_map, distribution_maps, gallery, privacy


def main(words: list[str] | None = None) -> None:
    """Write all pictures, or those named, into a folder."""
    alone: dict[str, Callable[[Path, Path], None]] = {
        car_map.CAR_PICTURE.name: car_map.make,
        distribution_maps.PICTURE.name: distribution_maps.make,
    }
    names = [*gallery.NAMES, *alone, *privacy.NAMES]
    parser = argparse.ArgumentParser(prog="pictures", description=__doc__)
    parser.add_argument("folder", type=Path, help="for the pictures")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(names)}; all if none is named")
    parser.add_argument("--work", type=Path, help="keep records and releases here")
    arguments = parser.parse_args(words)
    if unknown := sorted(set(arguments.names) - set(names)):
        parser.error(f"there is no picture {unknown[0]}")
    plot_style.check_installed()
    selected = arguments.names or names
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        work = arguments.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        gallery.make(arguments.folder, work, [name for name in selected if name in gallery.NAMES])
        for name, make in alone.items():
            if name in selected:
                make(arguments.folder, work)
    privacy.make(arguments.folder, [name for name in selected if name in privacy.NAMES])


if __name__ == "__main__":
    try:
        main()
    except (HexveilError, OSError) as error:
        sys.exit(str(error))
