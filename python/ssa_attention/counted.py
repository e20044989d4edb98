"""Numbers in messages."""


def counted(number: int, noun: str) -> str:
    """1 document, 2 documents."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
