"""Changed folders of several value columns, with receipts that agree."""

import json

from hexveil.publishing import receipt


def changed_manifest(folder, path, change):
    """Change a manifest, and make the receipts anew, as a forger would."""
    file = folder / path / "manifest.json"
    manifest = json.loads(file.read_text())
    change(manifest)
    file.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    for place in dict.fromkeys((folder / path, folder)):
        (place / "receipt.json").unlink()
        receipt.write(place, json.loads((place / "manifest.json").read_text()))
