"""The example in the documentation has the output that the page shows."""

import re
from pathlib import Path

from tests.cli.apply.manifests import DIFFERENT, Manifests
from tests.cli.shell import Shell

PAGE = Path(__file__).parents[3] / "docs" / "operate" / "deploy" / "configuration-as-code.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


def fences(kind: str) -> list[str]:
    return [text for found, text in FENCE.findall(PAGE.read_text("utf-8")) if found == kind]


async def test_the_example_runs_as_shown(shell: Shell, manifests: Manifests) -> None:
    manifest = fences("yaml")[0]
    first, unchanged, changed, wrong = fences("console")

    async def shown(block: str, text: str, code: int) -> None:
        command, _, output = block.partition("\n")
        assert command == "$ queen diff -f queen.yaml"
        ended = await manifests.run("diff", manifest=text)
        found = (ended.out + ended.err).replace(str(manifests.file), "queen.yaml")
        assert (ended.code, found) == (code, output)

    await shown(first, manifest, DIFFERENT)
    assert "queen apply -f queen.yaml --secrets secrets.jsonl\n" in fences("sh")
    await manifests.apply(manifest, "--secrets", str(manifests.file.parent / "secrets.jsonl"))
    await shown(unchanged, manifest, 0)
    await shown(changed, manifest.replace("leaseTime: 1m", "leaseTime: 90s"), DIFFERENT)
    mistyped = manifest.replace("    namespace: shop\n    leaseTime", "    leesTime")
    await shown(wrong, mistyped, 1)
    # A server's own manifest changes nothing.
    exported = await shell.run("generate", "manifest", "--manager", "shop")
    assert (await manifests.run("diff", "--take-over", manifest=exported.out)).code == 0
