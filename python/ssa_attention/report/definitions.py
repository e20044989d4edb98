"""What the words of the report mean, and what the models were tested on."""

from __future__ import annotations

from html import escape

from . import figures
from .evaluations import PUBLISHED
from .metrics import base_metric, metric_of
from .names import PUBLISHED_WORDS, SUITE_TITLES
from .page import Page, table
from .reading import Study
from .sections import validation_metric
from .statistics import plain, thousands

_DEFINITIONS = {
    "wrong": "Share of positions whose sign is wrong: sign of the output against y = ±1.",
    "sequence-wrong": "Share of sequences in which any position has the wrong sign.",
    "squared-error": "Mean of (output − y)² over positions from the third on (a line needs two points).",
    "relative-error": "Squared error divided by the mean square of y at the same positions: 1 is what the answer 0 "
    "would get.",
    "accuracy": "Percent of minimal pairs whose grammatical sentence wins over the ungrammatical one; a tie counts one "
    "half, so that chance is 50. Means of phenomena and the average weigh each of their paradigms alike.",
    "perplexity": "exp of the mean loss over the tokens of a text, in windows of that many tokens: lower is better.",
    "acc": "Percent of items whose right choice has the largest log-probability.",
    "wrong-tokens": "Of the tokens chosen to be predicted, most of them masked, the share in whose place the model "
    "finds another one likelier.",
}
_SCORINGS = {
    "holistic": "The sentence with the lower mean cross-entropy wins, taken over all of its tokens, &lt;s&gt; and "
    "&lt;/s&gt; included, read as they stand: nothing is masked.",
    "pseudo-log-likelihood": "The sentence with the higher sum of log-probabilities wins, each token masked alone in "
    "turn, special ones left out. The two scorings give different numbers.",
}
_BASELINES = {
    "constant": "The one answer that is right more often over the whole set.",
    "position": "The answer that is right more often at each position: what ignoring the inputs can reach.",
    "least-squares": "The least-squares line through the pairs before; of minimum norm while they do not determine one.",
    "3-nearest": "The mean of y over the three nearest inputs before.",
    "average": "The line whose coefficients are the means of x·y and of y over the pairs before.",
}


def section(study: Study, page: Page) -> None:
    conditions = {c for cell in study.cells for _, c in cell.means}
    items = {item for cell in study.cells for _, item in cell.items}
    metrics = {base_metric(c.metric) for c in conditions | items}
    metrics |= {
        validation_metric(c.task, name)
        for c in study.cells
        if c.run
        for line in c.run.validation
        for name in line["validation"]
    }
    terms = [f"<dt>{metric_of(m).words}</dt><dd>{text}</dd>" for m, text in _DEFINITIONS.items() if m in metrics]
    told = " ".join(SUITE_TITLES[p.suite] for p in items)
    terms += [f"<dt>{name}</dt><dd>{text}</dd>" for name, text in _SCORINGS.items() if name in told]
    if any(p == PUBLISHED for cell in study.cells for p, _ in cell.items):
        terms.append(
            f"<dt>{PUBLISHED_WORDS}</dt><dd>BabyBERTa trained on all of AO-CHILDES, mean of 10 models. Compare the "
            "scoring functions with each other, not with it.</dd>"
        )
    if any(c.shift == "huge" for c in conditions):
        terms.append(
            "<dt>before, at, after</dt><dd>With one huge value each metric is taken over the positions before "
            "it, over its own, and over all later ones.</dd>"
        )
    terms += [
        f"<dt>{escape(name)} (baseline)</dt><dd>{_BASELINES.get(name, 'As the evaluation defines it.')}</dd>"
        for name in figures.baselines(study.cells, list(conditions))
    ]
    if any(c.evaluation and c.evaluation.attention for c in study.cells):
        terms.append(
            "<dt>attention mass on the huge token</dt><dd>Attention weight on the token of the huge input, "
            "mean over the queries at and after it, over sequences and heads.</dd>"
            "<dt>entropy of attention</dt><dd>−Σ p·log p of a query's attention weights in nats, mean over "
            "all queries, sequences and heads: 0 when all is on one token.</dd>"
        )
    terms.append(
        "<dt>mean, 95 % interval</dt><dd>Over seeds, with Student's t, on the scale of the metric and taken back from it: "
        "log-odds for shares of errors, (k + ½)/(N − k + ½) of k wrong ones of N; logarithms for relative errors and "
        "perplexities; accuracies as they are.</dd>"
        "<dt>effect</dt><dd>The score against softmax on that scale, paired by seed (both scores saw the same data and the "
        "same initial weights for each seed): an odds ratio, a ratio, or a difference.</dd>"
        "<dt>verdict</dt><dd>As <code>ssa reproduce</code> gives it: better or worse where p, adjusted for the number of "
        "comparisons (Benjamini and Hochberg; of primary endpoints Holm), is below 0.05; equivalent where the interval lies within "
        "the margin that the experiment names; else not decided. No verdict is given from fewer than 3 seeds.</dd>"
    )
    if conditions:
        terms.append("<dt>σ</dt><dd>Standard deviation: N(0, σ) has mean 0 and variance σ².</dd>")
    page.section("definitions", "Definitions", f"<dl>{''.join(terms)}</dl>{_test_sets(study)}")


def _test_sets(study: Study) -> str:
    sets = _shifted_sets(study) + _pair_sets(study)
    return f"<h3>Test sets</h3>{sets}" if sets else ""


def _pair_sets(study: Study) -> str:
    facts = dict.fromkeys(
        (suite, thousands(asked.pairs), asked.precision, asked.data)
        for c in study.cells
        if c.run
        for suite, asked in c.run.item_evaluations.items()
        if asked.pairs
    )
    if not facts:
        return ""
    head = [f"<th scope=col>{h}</th>" for h in ("Minimal pairs", "Pairs", "Precision", "Hash of the data")]
    rows = [
        f"<tr><th scope=row>{SUITE_TITLES[suite]}</th>{''.join(f'<td>{escape(fact)}</td>' for fact in told)}</tr>"
        for suite, *told in facts
    ]
    return table(head, rows)


def _shifted_sets(study: Study) -> str:
    facts = dict.fromkeys(
        (c.task, c.evaluation.sequences, c.evaluation.data_seed, c.evaluation.chance, c.evaluation.majority)
        for c in study.cells
        if c.evaluation
    )
    if not facts:
        return ""
    head = [f"<th scope=col>{h}</th>" for h in ("Task", "Sequences per condition", "Data seed", "Chance", "Majority")]
    rows = [
        f"<tr><th scope=row>{escape(task)}</th><td>{thousands(n)}</td><td>{seed}</td>"
        f"<td>{'–' if chance is None else plain(chance)}</td>"
        f"<td>{'–' if majority is None else plain(majority)}</td></tr>"
        for task, n, seed, chance, majority in facts
    ]
    skipped = dict.fromkeys(
        f"{c.variant}, {reason}" for c in study.cells if c.evaluation for reason in c.evaluation.skipped
    )
    note = f'<p class="note">Not evaluated: {escape("; ".join(skipped))}.</p>' if skipped else ""
    return table(head, rows) + note
