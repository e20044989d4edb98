"""From the form in which a source has a data set into the one that the project's configs read. Each takes the contents of
the source's files, and gives those of the files to be written."""

from __future__ import annotations

import bz2
import html
import json
import random
import re

LEAST_ARTICLE = 200  # characters; shorter ones are stubs
ARTICLE = re.compile(r'<doc id="(\d+)" url="[^"]*" title="([^"]*)">\n(.*?)\n?</doc>', re.DOTALL)


def _read_lines(content: bytes) -> list[dict]:
    return [json.loads(line) for line in content.decode().split("\n") if line]


def _json_lines(items: list[dict]) -> bytes:
    return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items).encode()


def _numbered(items) -> bytes:
    return _json_lines([{"id": i} | item for i, item in enumerate(items)])


def piqa(content: bytes) -> list[bytes]:
    def item(line):
        goal = line["query"].removeprefix("Question: ").removesuffix("\n")
        return {"goal": goal, "sol1": line["choices"][0], "sol2": line["choices"][1], "label": line["gold"]}

    return [_numbered(map(item, _read_lines(content)))]


def boolq(content: bytes) -> list[bytes]:
    def item(line):
        passage, question = line["query"].removeprefix("Passage: ").rsplit("\nQuestion: ", 1)
        return {"passage": passage, "question": question.removesuffix("?"), "answer": bool(line["gold"])}

    return [_numbered(map(item, _read_lines(content)))]


def copa(content: bytes) -> list[bytes]:
    def item(line):
        return {"query": line["query"], "choices": line["choices"], "label": line["gold"]}

    return [_numbered(map(item, _read_lines(content)))]


def openbookqa(content: bytes) -> list[bytes]:
    def item(line):
        return {"question_stem": line["query"], "choices": line["choices"], "label": line["gold"]}

    return [_numbered(map(item, _read_lines(content)))]


def lambada(content: bytes) -> list[bytes]:
    return [_numbered({key: line[key] for key in ("context", "continuation")} for line in _read_lines(content))]


def winogrande(content: bytes) -> list[bytes]:
    def item(entry):
        sentence, rest = entry["instruction"].split(": ", 1)[1].rsplit("\n\nOption1: ", 1)
        first, second = rest[: rest.rindex("Answer format:")].strip().rsplit(" Option2: ", 1)
        answer = entry["answer"].removeprefix("option")
        return {"sentence": sentence, "option1": first, "option2": second, "answer": answer}

    return [_numbered(map(item, json.loads(content)))]


def _arc_item(entry: dict) -> dict:
    text = entry["instruction"].removeprefix("Please choose the correct answer to the question: ")
    question, answers = text[: text.rindex("\n\nAnswer format:")].rsplit("\n\nAnswer1: ", 1)
    label = int(entry["answer"].removeprefix("answer")) - 1
    return {"question": question, "choices": re.split(r" Answer\d: ", answers), "label": label}


def arc(content: bytes) -> list[bytes]:
    return [_numbered(map(_arc_item, json.loads(content)))]


def arc_half(content: bytes) -> list[bytes]:
    """Every second item, as the project's task of ARC's challenge part has it."""
    items = [{"id": i} | _arc_item(entry) for i, entry in enumerate(json.loads(content))]
    return [_json_lines(items[::2])]


def hellaswag(content: bytes) -> list[bytes]:
    """The first 500 items, of six lines each: context, label, four endings."""
    lines = bz2.decompress(content).decode().split("\n")
    items = [lines[i : i + 6] for i in range(0, 6 * 500, 6)]
    return [_numbered({"ctx": item[0], "label": int(item[1]), "endings": item[2:]} for item in items)]


def wikipedia_articles(content: bytes) -> list[bytes]:
    """Articles for training and for validation, drawn at random, in the source's order."""
    articles = [
        {"id": int(number), "title": html.unescape(title), "text": html.unescape(text).strip()}
        for number, title, text in ARTICLE.findall(content.decode())
    ]
    articles = [article for article in articles if len(article["text"]) > LEAST_ARTICLE]
    order = list(range(len(articles)))
    random.Random(7).shuffle(order)
    first, second = int(0.7 * len(order)), int(0.8 * len(order))
    return [_json_lines([articles[i] for i in sorted(part)]) for part in (order[:first], order[first:second])]


def wikisplit(*contents: bytes) -> list[bytes]:
    """The sentences before they are split, each once."""
    lines = [line for content in contents for line in content.decode().split("\n") if line]
    sentences = dict.fromkeys(line.split("\t")[0] for line in lines)
    return ["".join(sentence + "\n" for sentence in sentences).encode()]


def shares_80_10(content: bytes) -> list[bytes]:
    """The first 80 % for training and the next 10 % for validation, cut at line ends."""
    first, second = (content.index(b"\n", int(share * len(content))) + 1 for share in (0.8, 0.9))
    return [content[:first], content[first:second]]


def every_100th_line(content: bytes) -> list[bytes]:
    """For training, and every 100th line for validation."""
    lines = content.splitlines(keepends=True)
    return [b"".join(line for i, line in enumerate(lines) if i % 100 != 99), b"".join(lines[99::100])]


CONVERSIONS = {
    convert.__name__: convert
    for convert in (
        piqa, boolq, copa, openbookqa, lambada, winogrande, arc, arc_half, hellaswag, wikipedia_articles, wikisplit,
        shares_80_10, every_100th_line,
    )
}  # fmt: skip
