"""Pages about the GraphQL schema, written from `docs/contract.graphql`: one for each of its parts, and an index."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from graphql import language as ast
from graphql import parse, print_ast

from docs.site.documents import DOCS, with_wide_lists

Root = ast.ObjectTypeDefinitionNode | ast.ObjectTypeExtensionNode
Field = ast.FieldDefinitionNode | ast.InputValueDefinitionNode
TypeNode = ast.TypeDefinitionNode | ast.TypeExtensionNode

ROOTS = {"Query": "Queries", "Mutation": "Mutations", "Subscription": "Subscriptions"}
FIRST_PART = "Sessions, messages, groups"
_INTRODUCTION = """The contract of the API, from `docs/contract.graphql`. Each part of the API has a page; at the end
of this page are all fields by name. The same as one file: [contract.graphql](../../files/docs/contract.graphql.txt).
The playground at `/graphql` has an example for each field.
"""
_BAR = re.compile(r"# -{20,}\n")


@dataclass
class Part:
    """A part of the contract: its title, its rules, and what it defines."""

    title: str
    rules: list[str]
    fields: dict[str, list[ast.FieldDefinitionNode]] = field(default_factory=lambda: {root: [] for root in ROOTS})
    types: list[TypeNode] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the page."""
        return re.sub(r"[^a-z]+", "-", self.title.lower()).strip("-")


def schema_pages() -> dict[str, str]:
    """Return the text of every page by its name; `index` is the first."""
    text = (DOCS / "contract.graphql").read_text(encoding="utf-8")
    head, *others = _BAR.split(text)
    conventions, _, first = head.partition('\n"')
    # After the first bar, titles and contents of parts take turns.
    bodies = [(FIRST_PART, f'"{first}')]
    bodies += [
        (title.removeprefix("# ").partition(":")[0].strip(), body)
        for title, body in zip(others[::2], others[1::2], strict=True)
    ]
    parts = [_part(title, body) for title, body in bodies]
    pages = Pages(parts)
    return {"index": pages.index(_paragraphs(conventions)), **{part.name: pages.page(part) for part in parts}}


def _part(title: str, body: str) -> Part:
    rules = re.match(r"(?:#.*\n)*", body)
    part = Part(title, _paragraphs(rules[0] if rules else ""))
    for definition in parse(body).definitions:
        if isinstance(definition, Root) and definition.name.value in ROOTS:
            part.fields[definition.name.value] += definition.fields or ()
        elif isinstance(definition, TypeNode):
            part.types.append(definition)
    return part


def _paragraphs(comment: str) -> list[str]:
    """Return the lines of a comment as Markdown. Lists stay lists; other indented lines become a block of text."""
    lines: list[str] = []
    is_in = ""
    for line in (line.removeprefix("#").removeprefix(" ").rstrip() for line in comment.strip().splitlines()):
        was_in, text = is_in, line.lstrip()
        if text.startswith("- "):
            is_in = "list"
        elif not line.startswith("  "):
            is_in = ""
        elif not is_in:
            is_in = "block"
        if was_in != is_in:
            lines += ["```"] if was_in == "block" else [""]
            lines += ["```text"] if is_in == "block" else []
        if is_in == "block":
            lines.append(line)
        elif is_in == "list":
            lines.append(_escaped(text if text.startswith("- ") else f"  {text}"))
        else:
            lines.append(re.sub(r"^([A-Z][a-z ]{2,20})\. (?=[A-Z])", r"\n**\1.** ", _escaped(line)))
    return with_wide_lists("\n".join([*lines, "```"] if is_in == "block" else lines)).split("\n")


def _escaped(text: str) -> str:
    """Return text in which ids and what looks like tags are shown as they are."""
    text = re.sub(r"(?<![\w`])([a-z]_(?:[<…][^\s,;:]*)?)(?=[\s,;:.)]|$)", r"`\1`", text)
    return re.sub(r"(?<!`)<(?=\w)(?![^`\n]*`(?:[^`\n]*`[^`\n]*`)*[^`\n]*$)", "&lt;", text)


class Pages:
    """Writes pages whose types are links to their definitions."""

    def __init__(self, parts: list[Part]) -> None:
        self._parts = parts
        self._home = {
            definition.name.value: part.name
            for part in parts
            for definition in part.types
            if isinstance(definition, ast.TypeDefinitionNode)
        }

    def index(self, conventions: list[str]) -> str:
        """Return the first page: conventions, and all root fields by name."""
        rules = [line for line in conventions[2:] if line != "Conventions"]
        lines = ["# Schema", "", _INTRODUCTION, "", *rules, ""]
        for root, title in ROOTS.items():
            lines += [f"## {title}", ""]
            found = [(each.name.value, part.name, part.title) for part in self._parts for each in part.fields[root]]
            lines += ["| field | part |", "|---|---|"]
            for name, page, part_title in sorted(found):
                lines.append(f"| [`{name}`]({page}.md#{root.lower()}-{name.lower()}) | {part_title} |")
            lines.append("")
        return "\n".join(lines)

    def page(self, part: Part) -> str:
        """Return the page of a part."""
        lines = [f"# {part.title}", "", *part.rules, ""]
        for root, title in ROOTS.items():
            if part.fields[root]:
                lines += [f"## {title}", ""]
            for each in part.fields[root]:
                lines += [f"### {each.name.value} {{ #{root.lower()}-{each.name.value.lower()} }}", ""]
                lines += [f"<code>{self._signature(each)}</code>", "{ .signature }", ""]
                lines += [_description(each), ""]
        if part.types:
            lines += ["## Types", ""]
        for definition in part.types:
            lines += self._definition(definition)
        return "\n".join(lines)

    def _definition(self, definition: TypeNode) -> list[str]:
        name = definition.name.value
        kind = re.sub(r"(?<!^)(?=[A-Z])", " ", type(definition).__name__.removesuffix("Node")).lower()
        kind = kind.replace(" type definition", "").replace("object type extension", "further fields of")
        kind = kind.replace("input object type extension", "further fields of").replace("input object", "input")
        if isinstance(definition, ast.TypeExtensionNode):
            lines = [f"### {name}, continued", "", f"Further fields of {self._link(name)}.", ""]
        else:
            # Nobody searches for the types between a list and its entries.
            search = " data-search-exclude" if re.search(r"(Connection|Edge)$", name) else ""
            lines = [f"### {name} {{ #type-{name.lower()}{search} }}", "", f"*{kind}*", ""]
        description = _description(definition)
        if description:
            lines += [description, ""]
        if isinstance(definition, ast.EnumTypeDefinitionNode):
            lines += [", ".join(f"`{value.name.value}`" for value in definition.values or ()), ""]
        elif isinstance(definition, ast.UnionTypeDefinitionNode):
            lines += ["One of " + ", ".join(self._link(each.name.value) for each in definition.types or ()) + ".", ""]
        elif getattr(definition, "fields", None):
            fields: list[Field] = list(definition.fields)  # type: ignore[union-attr]
            has_descriptions = any(each.description for each in fields)
            lines += ["| field | meaning |", "|---|---|"] if has_descriptions else ["| field |", "|---|"]
            for each in fields:
                text = _description(each).replace("\n", " ").replace("|", "&#124;")
                signature = f'<code class="field">{self._signature(each)}</code>'
                lines.append(f"| {signature} | {text} |" if has_descriptions else f"| {signature} |")
            lines.append("")
        return lines

    def _signature(self, definition: Field) -> str:
        arguments = ", ".join(self._signature(each) for each in getattr(definition, "arguments", None) or ())
        default = getattr(definition, "default_value", None)
        text = definition.name.value + (f"({arguments})" if arguments else "") + ": " + self._type(definition.type)
        return text + (f" = {print_ast(default)}" if default else "")

    def _type(self, given: ast.TypeNode) -> str:
        text = print_ast(given)
        name = re.sub(r"\W", "", text)
        return text.replace(name, self._anchor(name))

    def _anchor(self, name: str) -> str:
        page = self._home.get(name)
        return name if page is None else f"[{name}]({page}.md#type-{name.lower()})"

    def _link(self, name: str) -> str:
        return f"[`{name}`]({self._home[name]}.md#type-{name.lower()})"


def _description(definition: object) -> str:
    found = getattr(definition, "description", None)
    return _escaped(found.value) if found is not None else ""
