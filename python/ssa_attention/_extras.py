"""Says which extra of the package to install where an optional package is missing."""

from importlib.util import find_spec


def require(package: str, extra: str) -> None:
    """ModuleNotFoundError with one line that names the extra, if `package` is not installed."""
    if find_spec(package) is None:
        raise ModuleNotFoundError(
            f"{package} is not installed: run `pip install 'ssa_attention[{extra}]'`, or `pip install {package}`",
            name=package,
        )
