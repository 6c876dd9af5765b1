"""Clients from npm, kept between runs."""

import os
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent


def installed(*packages):
    """Where these packages (each with its version) are, in a folder `node_modules`."""
    subprocess.run([HERE / "../../scripts/need", "node:nodejs", "npm:npm"], check=True)
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    name = "-".join(["npm", *packages]).replace("@", "-").replace("/", "-")
    place = cache / "weir" / name
    if not (place / "complete").exists():
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts",
                        "--prefix", place, *packages], check=True)
        (place / "complete").touch()
    return place
