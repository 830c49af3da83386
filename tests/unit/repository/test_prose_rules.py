"""Each rule in .vale/styles/Queen flags a bad sentence and accepts a good one."""

from pathlib import Path

import pytest

from tools.check_prose import (
    REPOSITORY,
    Text,
    findings,
    literals,
    texts_of_errors,
    texts_of_sources,
)

RULES = {
    "NounClauses": (
        ["What is out comes again.", "A copy of what was pushed.", "Ask whoever runs it."],
        ["What is a lease?", "The log shows what happened.", "The user, who is an admin, can."],
    ),
    "NegativeActors": (
        ["Nothing new is popped.", "The lag that nobody reads.", "None of them runs."],
        ["The call does nothing.", "The default is none.", "You need `psql` and nothing else."],
    ),
    "Personification": (
        ["The log says who revealed it.", "The server is told.", "It looks for new messages."],
        ["The audit log records who revealed it.", "It looks like JSON.", "Look up the queue."],
    ),
    "Connectors": (
        ["It accepts keys alone.", "Kept for ever.", "Start it anew.", "Wait, for it is slow."],
        ["Leave the file alone.", "Kept forever.", "A stand-alone server, for it to start."],
    ),
    "Rates": (
        ["It stores 10,000 messages a second.", "Start a process a core, at most."],
        ["10,000 messages per second.", "The exit code is 0. A second signal stops it."],
    ),
    "Values": (
        ["Held back so long: 30s.", "At most so many.", "Only those that are so old."],
        ["So many messages that the disk is full.", "So far, so good.", "So long as it runs."],
    ),
    "Negations": (
        ["A replica is no backup.", "The cursor is none of ours."],
        ["There is no queue.", "The key is no longer valid.", "Then the lease is None."],
    ),
    "Let": (["Let the handler be idempotent."], ["Let the server start. It may be slow."]),
    "OfChains": (
        ["The size of the buffer of the server."],
        ["The size of the server's buffer.", "The states of a run and of a step."],
    ),
    "Terms": (
        ["Dead letters are buried.", "A folder.", "The figures of a queue.", "It is refused."],
        ["They are dead-lettered.", "Connection refused.", "Figures out."],
    ),
    "UserTerms": (["A message is settled.", "A sealed payload."], ["Run `settle` now."]),
}
BAD = [(rule, each) for rule, (bad, _) in RULES.items() for each in bad]
GOOD = [each for _, good in RULES.values() for each in good]


@pytest.fixture(scope="module")
def flagged() -> set[tuple[str, str]]:
    """Rule and sentence of all sentences in one run, because a start of vale is slow."""
    sentences = [*(each for _, each in BAD), *GOOD]
    page = REPOSITORY / "page.md"
    texts = (Text(page, number, each) for number, each in enumerate(sentences, start=1))
    return {
        (each.rule.removeprefix("Queen."), sentences[each.line - 1]) for each in findings([], texts)
    }


def test_each_rule_has_example_sentences() -> None:
    rules = (REPOSITORY / ".vale" / "styles" / "Queen").glob("*.yml")

    assert {rule.stem for rule in rules} == RULES.keys()


@pytest.mark.parametrize(("rule", "sentence"), BAD)
def test_a_bad_sentence_is_flagged(rule: str, sentence: str, flagged: set[tuple[str, str]]) -> None:
    assert (rule, sentence) in flagged


@pytest.mark.parametrize("sentence", GOOD)
def test_a_good_sentence_is_accepted(sentence: str, flagged: set[tuple[str, str]]) -> None:
    assert not [rule for rule, each in flagged if each == sentence]


def test_a_finding_has_the_line_of_its_string() -> None:
    source = REPOSITORY / "dashboard" / "src" / "text" / "queues.ts"

    (found,) = findings([], [Text(source, 7, "A queue"), Text(source, 9, "Choose a folder.")])

    assert found[:3] == ("dashboard/src/text/queues.ts", 9, "Queen.Terms")


def test_strings_in_typescript_are_found() -> None:
    line = 'exported: (n: string) => `${n} read${masked ? `, ${masked} masked` : ""}`, "so"'

    assert set(literals(line)) - {""} == {", X masked", "X readX", "so"}


def test_words_in_python_and_sql_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        '"""A page."""\nx = 1  # Why.\ny = 2  # noqa: F401\nraise errors.Bad(f"no queue {x}")\n'
        "def test_it_works() -> None: ...\n"
    )
    (tmp_path / "a.sql").write_text("select 1; -- One.\n")

    found = {(each.line, each.words) for each in texts_of_sources(str(tmp_path))}

    assert found == {(1, "A page."), (2, "Why."), (5, "test it works"), (1, "One.")}
    assert [each.words for each in texts_of_errors(str(tmp_path))] == ["no queue X"]
