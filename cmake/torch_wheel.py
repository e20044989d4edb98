"""Which torch an environment holds, found without importing it: that takes seconds, and needs all of its libraries.

As a program: prints version and folder, separated by a semicolon. CMake runs it, and pip's build backend imports it.
"""

import importlib.util
import runpy
import site
import sys
import sysconfig
from pathlib import Path

OLDEST = (2, 9)


def folders():
    """Where torch may be: on the path; then in the environment that pip was started for. While pip builds a package,
    the path has only pip's own temporary environment, but the interpreter is still that of the user's."""
    found = importlib.util.find_spec("torch")
    if found is not None and found.submodule_search_locations:
        yield Path(found.submodule_search_locations[0])
    places = [sysconfig.get_path("platlib"), sysconfig.get_path("purelib"), *site.getsitepackages()]
    if sys.prefix == sys.base_prefix:
        places.append(site.getusersitepackages())
    for place in places:
        yield Path(place, "torch")


def find():
    """(version, folder) of the installed torch, or None."""
    for folder in folders():
        if (folder / "version.py").is_file() and (folder / "lib").is_dir():
            return runpy.run_path(str(folder / "version.py"))["__version__"], folder
    return None


def new_enough(version):
    """Whether a version such as "2.13.0+cpu" is at least the oldest one supported."""
    return tuple(int(part) for part in version.split(".")[:2]) >= OLDEST


if __name__ == "__main__":
    torch = find()
    if torch is None:
        sys.exit(f"{sys.executable} has no torch")
    if not new_enough(torch[0]):
        sys.exit(f"{sys.executable} has torch {torch[0]}; {OLDEST[0]}.{OLDEST[1]} is the oldest that works")
    print(torch[0], torch[1].as_posix(), sep=";")
