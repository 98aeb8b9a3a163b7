"""Changed manifests of several value columns, with receipts that agree."""

import json

from hexveil.publishing import receipt


def changed_manifest(folder, change):
    """Change a manifest, and make the receipt anew, as a forger would."""
    file = folder / "manifest.json"
    manifest = json.loads(file.read_text())
    change(manifest)
    file.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    (folder / "receipt.json").unlink()
    receipt.write(folder, manifest)
