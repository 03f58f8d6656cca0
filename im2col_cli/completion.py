"""What a shell completes a PATTERN or a variant's name to. It renders nothing and stays quick."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def pattern(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem[str]]":
    """Completes names of the matrix that the command looks at."""
    return _items(incomplete, ctx.params.get("matrix") or "golden")


def variant(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem[str]]":
    """Completes the name of any variant; what is none may be a file."""
    from click.shell_completion import CompletionItem

    return _items(incomplete, "full") or [CompletionItem(incomplete, type="file")]


def _items(incomplete: str, matrix: str) -> "list[CompletionItem[str]]":
    """Activations with their formulas, then structures; of a single structure, its variants.

    A structure is never the only answer: a shell would end the word behind its slash.
    """
    from click.shell_completion import CompletionItem

    from im2col_cli.activation import ACTIVATIONS
    from im2col_cli.matrix import MATRICES

    activations = [
        CompletionItem(name, help=activation.formula)
        for name, activation in ACTIVATIONS.items()
        if name.startswith(incomplete)
    ]
    variants = MATRICES[matrix]
    structures = dict.fromkeys(f"{variant.structure.name}/" for variant in variants)
    names = [name for name in structures if name.startswith(incomplete[: len(name)])]
    if len(names) == 1:
        names = [variant.name for variant in variants if variant.name.startswith(names[0])]
    return activations + [CompletionItem(name) for name in names if name.startswith(incomplete)]
